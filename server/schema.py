"""From a client's JSON Schema to what the grammar can enforce, and what is left to check.

Three things may happen to a keyword: it stays and is enforced while decoding; it is taken out of
the grammar and checked on the finished value (`Prepared.checked`), with another try if it fails; or
the schema is refused by pointer and keyword. Nothing is dropped in silence.

The dialect is draft 2020-12 (https://json-schema.org/draft/2020-12/json-schema-validation); the
array form of `items` and boolean exclusive bounds of older drafts are refused by its meta-schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import regex
from jsonschema import Draft202012Validator, FormatChecker, validators
from jsonschema.exceptions import SchemaError, ValidationError
from referencing.exceptions import Unresolvable

JsonObject = dict[str, Any]

ANNOTATIONS = frozenset(
    "title description default examples example deprecated readOnly writeOnly $comment $schema"
    " $id contentEncoding contentMediaType contentSchema discriminator xml externalDocs"
    " nullable".split()
)
AFTERWARDS = frozenset(
    "not if then else contains minContains maxContains uniqueItems dependentRequired"
    " dependentSchemas dependencies propertyNames unevaluatedProperties unevaluatedItems".split()
)
"""What the back end cannot enforce: checked on the finished value."""

FORMATS = frozenset(
    "date-time time date duration email hostname ipv4 ipv6 uuid uri int32 int64 float"
    " double".split()
)
"""Formats that the back end knows; any other is an annotation, as the specification has it."""

MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLES = (
    "additionalProperties items contains not if then else propertyNames unevaluatedItems"
    " unevaluatedProperties"
).split()
COMPOSING = frozenset(
    "allOf anyOf oneOf $ref $dynamicRef if then else dependentSchemas patternProperties"
    " unevaluatedProperties".split()
)

MAX_PATTERN = 20_000
MAX_GROUPS = 100
PATTERN_S = 1.0  # seconds that one pattern may take on one text


class Refusal(ValueError):
    """The schema will not do: `pointer` and `keyword` say where, the text says why."""

    def __init__(self, pointer: str, keyword: str, why: str) -> None:
        super().__init__(f"{keyword} at {pointer or '/'}: {why}")
        self.pointer = pointer
        self.keyword = keyword


@dataclass(frozen=True)
class Prepared:
    """`grammar` is the schema for the back end; `checked`: it says less than the client's."""

    grammar: JsonObject
    checked: bool


def prepare(schema: JsonObject, *, arguments: bool) -> Prepared:
    """Make a client's schema ready for the back end. Raises Refusal.

    `arguments`: it describes the arguments of a tool, whose object is empty if nothing is listed.
    """
    check(schema)
    preparer = _Preparer(schema)
    grammar = preparer.walk(schema, "", closable=True)
    assert isinstance(grammar, dict)
    # At the top an object without properties means no arguments; below, any members.
    if arguments and not COMPOSING & schema.keys() and not schema.get("properties"):
        grammar.setdefault("additionalProperties", False)
    return Prepared(grammar, preparer.checked)


def check(schema: JsonObject) -> None:
    """Raise Refusal unless `schema` is one by the meta-schema and its patterns can be read."""
    # Patterns first: the meta-schema's own look at them is neither bounded nor by name.
    for pointer, node in nodes(schema):
        if isinstance(node.get("pattern"), str):
            check_pattern(node["pattern"], pointer)
        for pattern in _members(node, "patternProperties"):
            check_pattern(pattern, f"{pointer}/patternProperties", "patternProperties")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as exc:
        pointer = "/".join(["", *map(str, exc.absolute_path)])
        keyword = next((str(part) for part in reversed(exc.absolute_path) if part), "type")
        raise Refusal(pointer, keyword, exc.message[:200]) from None
    except RecursionError:
        raise Refusal("", "schema", "it is nested too deeply") from None


def nodes(schema: Any, pointer: str = "") -> Iterator[tuple[str, JsonObject]]:
    """All schema objects in a schema with their JSON pointers, the outer ones first.

    What is not of the shape that a schema has is passed over.
    """
    if not isinstance(schema, dict):
        return
    yield pointer, schema
    for key in MAPS:
        for name, inner in _members(schema, key).items():
            escaped = str(name).replace("~", "~0").replace("/", "~1")
            yield from nodes(inner, f"{pointer}/{key}/{escaped}")
    for key in LISTS:
        if isinstance(schema.get(key), list):
            for index, inner in enumerate(schema[key]):
                yield from nodes(inner, f"{pointer}/{key}/{index}")
    for key in SINGLES:
        yield from nodes(schema.get(key), f"{pointer}/{key}")


def _members(schema: JsonObject, key: str) -> JsonObject:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def check_pattern(pattern: str, pointer: str, keyword: str = "pattern") -> None:
    """Raise Refusal for a pattern that is no regular expression or too large to be one."""
    if len(pattern) > MAX_PATTERN:
        raise Refusal(pointer, keyword, f"longer than {MAX_PATTERN} characters")
    if pattern.count("(") > MAX_GROUPS and _group_depth(pattern) > MAX_GROUPS:
        raise Refusal(pointer, keyword, f"groups are nested more than {MAX_GROUPS} deep")
    try:
        regex.compile(pattern)
        re.compile(_plain_classes(pattern))
    except (re.error, regex.error, RecursionError, OverflowError) as exc:
        raise Refusal(pointer, keyword, f"not a regular expression ({str(exc)[:100]})") from None


def _group_depth(pattern: str) -> int:
    depth = deepest = 0
    for char in re.sub(r"\\.", "", pattern, flags=re.DOTALL):
        depth += {"(": 1, ")": -1}.get(char, 0)
        deepest = max(deepest, depth)
    return deepest


def _plain_classes(pattern: str) -> str:
    """An ECMA-262 pattern in the spelling of `re`, which is stricter about what is malformed."""
    pattern = re.sub(r"\(\?<(?![=!])", "(?P<", pattern)
    pattern = re.sub(r"\\[pP]\{[^}]*\}", r"\\w", pattern)
    return re.sub(r"\\u\{?([0-9a-fA-F]{4})\}?", r"\\u\1", pattern)


class _Preparer:
    """Copies a schema, leaving out what the back end does not take."""

    def __init__(self, schema: JsonObject) -> None:
        self.checked = False
        # A definition that is part of a larger object may not be closed on its own.
        self._close_definitions = not any(
            len(node.get("allOf", [])) > 1 or ("$ref" in node and "properties" in node)
            for _, node in nodes(schema)
        )

    def walk(self, schema: Any, pointer: str, *, closable: bool) -> Any:
        if not isinstance(schema, dict):
            return schema
        result: JsonObject = {}
        for key, value in schema.items():
            if key in ANNOTATIONS or key.startswith("x-"):
                continue
            if key in AFTERWARDS:
                self.checked = True
            elif key == "format" and value not in FORMATS:
                continue
            else:
                result[key] = self._keyword(key, value, f"{pointer}/{key}", closable)
        if closable and _closes(schema):
            result["additionalProperties"] = False
            for name in schema.get("required", []):
                result["properties"].setdefault(name, {})
        return result

    def _keyword(self, key: str, value: Any, pointer: str, closable: bool) -> Any:
        # Members of an allOf are one object together: none of them may be closed on its own.
        if key in MAPS:
            inside = self._close_definitions or key not in ("$defs", "definitions")
            return {
                name: self.walk(inner, f"{pointer}/{name}", closable=inside)
                for name, inner in value.items()
            }
        if key in LISTS:
            inside = closable and key != "allOf"
            return [
                self.walk(inner, f"{pointer}/{index}", closable=inside)
                for index, inner in enumerate(value)
            ]
        if key in SINGLES:
            return self.walk(value, pointer, closable=True)
        return value


def _closes(schema: JsonObject) -> bool:
    """Non-empty `properties` without a word about others: they are all there is."""
    return (
        bool(schema.get("properties"))
        and "additionalProperties" not in schema
        and not any(_composes(key, schema[key]) for key in COMPOSING & schema.keys())
    )


def _composes(keyword: str, value: Any) -> bool:
    """Whether a keyword may speak of further properties; alternatives of `required` do not."""
    if keyword not in ("allOf", "anyOf", "oneOf"):
        return True
    return any(not isinstance(branch, dict) or branch.keys() - {"required"} for branch in value)


# Loosening what the back end turned out not to take


def without_patterns(schema: JsonObject) -> JsonObject:
    """The schema without its patterns, which are then checked afterwards."""
    return edited(schema, lambda node: node.pop("pattern", None))


def without_one_of(schema: JsonObject) -> JsonObject:
    """The schema with `anyOf` for `oneOf`: that only one holds is then checked afterwards."""

    def edit(node: JsonObject) -> None:
        if "oneOf" in node:
            branches = {"anyOf": node.pop("oneOf")}
            if "anyOf" in node:
                node["allOf"] = [*node.get("allOf", []), branches]
            else:
                node.update(branches)

    return edited(schema, edit)


def without_property_counts(schema: JsonObject) -> JsonObject:
    """The schema without `minProperties` and `maxProperties`."""

    def edit(node: JsonObject) -> None:
        node.pop("minProperties", None)
        node.pop("maxProperties", None)

    return edited(schema, edit)


LOOSER: tuple[tuple[str, Callable[[JsonObject], JsonObject]], ...] = (
    ("oneOf constraints are not supported", without_one_of),
    ("Properties only supported when", without_property_counts),
    ("regex parse error", without_patterns),
)
"""What the back end says of a keyword, and the schema without it."""


def edited(schema: JsonObject, edit: Callable[[JsonObject], object]) -> JsonObject:
    """A copy in which `edit` has changed every schema object, the inner ones first."""

    def copy(node: Any) -> Any:
        return edited(node, edit) if isinstance(node, dict) else node

    result: JsonObject = {}
    for key, value in schema.items():
        if key in MAPS:
            value = {name: copy(inner) for name, inner in value.items()}
        elif key in LISTS:
            value = [copy(inner) for inner in value]
        elif key in SINGLES:
            value = copy(value)
        result[key] = value
    edit(result)
    return result


def _pattern(
    validator: Any, pattern: str, instance: Any, schema: JsonObject
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not regex.search(pattern, instance, timeout=PATTERN_S):
        yield ValidationError(f"does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: JsonObject, instance: Any, schema: JsonObject
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for name, value in instance.items():
            if regex.search(pattern, name, timeout=PATTERN_S):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


# Python's own `re` knows no \\p{…} and cannot be told to give up on a pattern that backtracks.
_Validator = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": _pattern, "patternProperties": _pattern_properties}
)
_FORMAT_CHECKER = FormatChecker(FORMATS & FormatChecker.checkers.keys())


class Checker:
    """Checks finished values against the client's own schema."""

    def __init__(self, schema: JsonObject) -> None:
        self._validator = _Validator(schema, format_checker=_FORMAT_CHECKER)

    def complaint(self, value: Any) -> str | None:
        """Which keyword a value breaks, and where; None if it satisfies the schema."""
        try:
            error = next(self._validator.iter_errors(value), None)
        except (Unresolvable, RecursionError, TimeoutError, regex.error) as exc:
            return f"the schema cannot be checked: {str(exc)[:200]}"
        if error is None:
            return None
        return f"{error.validator} at /{'/'.join(map(str, error.absolute_path))}"
