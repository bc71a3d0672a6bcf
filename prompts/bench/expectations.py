"""The tools of a user's own cases and the calls that are to come, both held against the schema.

A call that the tool's schema does not allow can never come, so to expect it is a slip. What may
stand for a value is told in `own_cases.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, best_match
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from prompts.bench.cases import Exact, ExpectedCall, JsonObject
from prompts.bench.documents import QUOTE, Slip

_CHOICE_KEYS = {"one_of", "exact", "optional"}
_CHOICE_HINT = (
    "A choice is {one_of: [...]} or {exact: VALUE}, either with `optional: true` if it may be left"
    " out. An object that has members of these names is written {exact: {...}}."
)
# With one of these a tool may take parameters that `properties` does not name.
_OPEN = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
_LEFT_OUT = object()


def read_tools(entries: Any) -> dict[str, JsonObject]:
    """Tools by name, as the API takes them. Raises Slip."""
    if not isinstance(entries, list):
        raise Slip("`tools` has to be a list")
    tools: dict[str, JsonObject] = {}
    for at, entry in enumerate(entries):
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Slip(f"tools[{at}] has to be a mapping with a `name` that is text", QUOTE)
        name = function["name"]
        if name in tools:
            raise Slip(f"two tools have the name {name}")
        if not isinstance(function.get("description", ""), str):
            raise Slip(f"the description of {name} has to be text", QUOTE)
        _check_parameters(name, function.get("parameters", {}))
        tools[name] = {
            "type": "function",
            **(entry if "function" in entry else {"function": entry}),
        }
    return tools


def _check_parameters(name: str, schema: Any) -> None:
    if not isinstance(schema, dict):
        raise Slip(f"the parameters of {name} have to be a JSON Schema, as a mapping")
    try:
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as exc:
        why = f"{exc.json_path.replace('$', 'parameters', 1)}: {exc.message[:300]}"
        raise Slip(f"the parameters of {name} are no JSON Schema: {why}") from None
    except RecursionError:
        raise Slip(f"the parameters of {name} are nested too deep") from None


def read_call(entry: Any, tools: Mapping[str, JsonObject]) -> ExpectedCall:
    """A call of one of the tools. Raises Slip."""
    if not (isinstance(entry, dict) and len(entry) == 1):
        raise Slip("an expected call has to be {NAME: ARGUMENTS}")
    ((name, arguments),) = entry.items()
    if name not in tools:
        raise Slip(f"it expects the tool {name}, which is not offered")
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict):
        raise Slip(f"the arguments of {name} have to be a mapping")
    schema = tools[name]["function"].get("parameters", {})
    unknown = set(arguments) - set(schema.get("properties", {}))
    if unknown and not _OPEN & set(schema):
        raise Slip(f"{name} has no parameter {', '.join(sorted(unknown))}")
    accepted = {key: _accepted(one, f"{name}.{key}") for key, one in arguments.items()}
    _check_allowed(name, accepted, schema)
    return ExpectedCall(name, accepted)


def _accepted(value: Any, place: str) -> list[Any]:
    """Of a parameter or a member: what it may be, as `ExpectedCall` has it."""
    if not (isinstance(value, dict) and _CHOICE_KEYS & set(value)):
        return [_pattern(value, place)]
    if unknown := set(value) - _CHOICE_KEYS:
        known = ", ".join(sorted(_CHOICE_KEYS & set(value)))
        raise Slip(f"{place} has {', '.join(sorted(unknown))} beside {known}", _CHOICE_HINT)
    if not isinstance(value.get("optional", False), bool):
        raise Slip(f"{place}: `optional` has to be true or false, without quotes")
    if ("one_of" in value) == ("exact" in value):
        raise Slip(f"{place} needs either one_of or exact", _CHOICE_HINT)
    choices = [{"exact": value["exact"]}] if "exact" in value else value["one_of"]
    if not isinstance(choices, list) or not choices:
        raise Slip(f"{place}: `one_of` has to be a list with something in it")
    left_out = [""] if value.get("optional") else []
    return [*(_pattern(one, place) for one in choices), *left_out]


def _pattern(value: Any, place: str) -> Any:
    if isinstance(value, list):
        return [_pattern(one, f"{place}[{at}]") for at, one in enumerate(value)]
    if not isinstance(value, dict):
        return Exact("") if value == "" else value
    if set(value) == {"exact"}:
        return Exact(value["exact"])
    if found := _CHOICE_KEYS & set(value):
        what = f"{place} has {', '.join(sorted(found))}"
        raise Slip(f"{what} inside of a list, where only `exact` alone may be", _CHOICE_HINT)
    return {key: _accepted(one, f"{place}.{key}") for key, one in value.items()}


def _check_allowed(name: str, accepted: Mapping[str, Sequence[Any]], schema: JsonObject) -> None:
    validator = Draft202012Validator(schema, registry=REGISTRY, format_checker=FormatChecker())
    for arguments in _instances(accepted):
        try:
            error = best_match(validator.iter_errors(arguments))
        except re.error:  # a pattern of ECMA 262, which is right there
            continue
        except Unresolvable as exc:
            raise Slip(f"a reference in the parameters of {name} leads nowhere: {exc}") from None
        except RecursionError:
            raise Slip(f"the parameters of {name} refer to themselves without an end") from None
        if error is not None:
            place = error.json_path.replace("$", name, 1)
            hint = QUOTE if error.validator == "type" and "string" in error.validator_value else ""
            raise Slip(f"{place}: {error.message[:300]}, by the schema of the tool", hint)


def _instances(accepted: Mapping[str, Sequence[Any]]) -> Iterator[JsonObject]:
    """Objects that are accepted, so many that each choice is in one of them."""
    options = {key: list(_options(one)) for key, one in accepted.items()}
    for at in range(max(map(len, options.values()), default=1)):
        drawn = {key: values[min(at, len(values) - 1)] for key, values in options.items()}
        yield {key: value for key, value in drawn.items() if value is not _LEFT_OUT}


def _options(accepted: Sequence[Any]) -> Iterator[Any]:
    for one in accepted:
        if one == "":
            yield _LEFT_OUT
        else:
            yield from _values(one)


def _values(pattern: Any) -> Iterator[Any]:
    if isinstance(pattern, Exact):
        yield pattern.exact
    elif isinstance(pattern, dict):
        yield from _instances(pattern)
    elif isinstance(pattern, list):
        keyed = {str(at): list(_values(one)) for at, one in enumerate(pattern)}
        for at in range(max(map(len, keyed.values()), default=1)):
            yield [values[min(at, len(values) - 1)] for values in keyed.values()]
    else:
        yield pattern
