"""The keywords of JSON Schema draft 2020-12: which hold schemas, what their values must be.

Source: https://json-schema.org/draft/2020-12/json-schema-core and -validation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

JsonObject = dict[str, Any]

MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLES = (
    "additionalProperties items contains not if then else propertyNames unevaluatedItems"
    " unevaluatedProperties"
).split()

SAYING = frozenset(
    "type enum const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength"
    " maxLength pattern format properties patternProperties additionalProperties"
    " unevaluatedProperties propertyNames required minProperties maxProperties dependentRequired"
    " dependentSchemas prefixItems items unevaluatedItems uniqueItems contains minItems maxItems"
    " allOf anyOf oneOf $ref $dynamicRef not if".split()
)
"""Keywords that say something of a value by themselves."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


class Refusal(ValueError):
    """The schema will not do: `pointer` and `keyword` say where, the text says why."""

    def __init__(self, pointer: str, keyword: str, why: str) -> None:
        super().__init__(f"{keyword!r} at {pointer or '/'}: {why}")
        self.pointer = pointer
        self.keyword = keyword


def children(schema: JsonObject) -> Iterator[tuple[str, Any]]:
    """What stands in a schema where a schema belongs, with its JSON pointer from there."""
    for key, value in schema.items():
        if key in MAPS and isinstance(value, dict):
            for name, inner in value.items():
                yield f"/{key}/{escaped(str(name))}", inner
        elif key in LISTS and isinstance(value, list):
            for index, inner in enumerate(value):
                yield f"/{key}/{index}", inner
        elif key in SINGLES:
            yield f"/{key}", value


def nodes(schema: Any, pointer: str = "") -> Iterator[tuple[str, JsonObject]]:
    """All schema objects in a schema with their JSON pointers, the outer ones first."""
    if isinstance(schema, dict):
        yield pointer, schema
        for path, inner in children(schema):
            yield from nodes(inner, pointer + path)


def edited(schema: Any, edit: Callable[[JsonObject], Any]) -> Any:
    """A copy in which `edit` has replaced every schema object, the inner ones first."""
    if not isinstance(schema, dict):
        return schema
    result: JsonObject = {}
    for key, value in schema.items():
        if key in MAPS:
            value = {name: edited(inner, edit) for name, inner in value.items()}
        elif key in LISTS:
            value = [edited(inner, edit) for inner in value]
        elif key in SINGLES:
            value = edited(value, edit)
        result[key] = value
    return edit(result)


def escaped(name: str) -> str:
    """A name as a token of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def types_of(schema: JsonObject) -> frozenset[str]:
    """The types that `type` lets through; all where it is absent."""
    named = schema.get("type", TYPES)
    types = frozenset([named] if isinstance(named, str) else named)
    return types | {"integer"} if "number" in types else types


def type_names(value: Any) -> frozenset[str]:
    """The types that a value is of."""
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return frozenset({"integer", "number"})
    kinds = {type(None): "null", float: "number", str: "string", list: "array", dict: "object"}
    return frozenset({kinds[type(value)]})


def canonical(value: Any) -> str:
    """A text for a JSON value, the same for values that are equal."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{canonical(value[name])}" for name in sorted(value)) + "}"
    return json.dumps(value)


def check_shape(schema: Any, pointer: str = "") -> None:
    """Raise Refusal where a keyword's value is not of the kind that the specification asks for.

    Annotations are not looked at. Patterns are checked where they are read.
    """
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        parent, _, keyword = pointer.rpartition("/")
        raise Refusal(parent, keyword or "schema", "must be a schema: an object or a boolean")
    for key, (fits, kind) in _KINDS.items():
        if key in schema and not fits(schema[key]):
            raise Refusal(pointer, key, f"must be {kind}")
    for path, inner in children(schema):
        check_shape(inner, pointer + path)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_types(value: Any) -> bool:
    named = [value] if isinstance(value, str) else value
    return isinstance(named, list) and named != [] and all(name in TYPES for name in named)


_Kind = tuple[Callable[[Any], bool], str]
_MAP: _Kind = (lambda value: isinstance(value, dict), "an object of schemas")
_LIST: _Kind = (lambda value: isinstance(value, list) and value != [], "a list of schemas")
_NUMBER: _Kind = (is_number, "a number")
_COUNT: _Kind = (_is_count, "a whole number that is not negative")
_TEXT: _Kind = (lambda value: isinstance(value, str), "a text")

_KINDS: dict[str, _Kind] = {
    **dict.fromkeys(MAPS, _MAP),
    **dict.fromkeys(LISTS, _LIST),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _COUNT),
    **dict.fromkeys(("pattern", "format", "$ref", "$dynamicRef", "$id"), _TEXT),
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _TEXT),
    "type": (_is_types, f"one of {', '.join(TYPES)}, or a list of these"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "multipleOf": (lambda value: is_number(value) and value > 0, "a number above 0"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "required": (_is_texts, "a list of texts"),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_texts, value.values())),
        "an object of lists of texts",
    ),
}
