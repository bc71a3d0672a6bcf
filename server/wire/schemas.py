"""The outer shape of a JSON Schema: what must be a schema is one. Keywords are judged later."""

from __future__ import annotations

from typing import Any

from server.wire.base import clipped
from server.wire.body import JsonObject

_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"}) | {
    "dependentSchemas"
}
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset(
    {"items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
    | {"not", "if", "then", "else"}
)
_LITERALS = frozenset({"default", "const", "example"})  # null is a value there, not an absence
_BARE = frozenset({"type", "title", "description", "$schema", "required", "additionalProperties"})


class NotASchema(ValueError):
    """Says where, as a JSON pointer, and what is there instead."""


def as_parameters(value: Any) -> JsonObject:
    """The schema of a function's arguments, with its object type filled in.

    Absent, `{}`, `[]` and a bare object type all become an object with empty properties. Raises
    NotASchema for a value that is no schema, and for a schema of anything but an object.
    """
    schema = as_schema(value)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise NotASchema("the arguments of a function are always an object, so type must be that")
    schema = {**schema, "type": "object"} if "type" in schema else {"type": "object", **schema}
    if schema.keys() <= _BARE:
        schema["properties"] = {}
    return schema


def as_schema(value: Any) -> JsonObject:
    """A copy of the schema where `[]` in place of an object is `{}` and null keywords are absent.

    Some languages cannot tell an empty map from an empty list, some write out every unset field.
    Raises NotASchema for a value that is no schema, at any depth.
    """
    schema = _subschema(value, "")
    if isinstance(schema, bool):
        raise NotASchema("must be a JSON Schema object, not a boolean")
    return schema


def _subschema(value: Any, pointer: str) -> JsonObject | bool:
    if _is_empty_list(value):
        return {}
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise NotASchema(_complaint(pointer, "a JSON Schema object", value))
    return {
        key: _keyword(key, inner, f"{pointer}/{key}")
        for key, inner in value.items()
        if inner is not None or key in _LITERALS
    }


def _keyword(key: str, value: Any, pointer: str) -> Any:
    if key in _SCHEMA_MAPS:
        if _is_empty_list(value):
            return {}
        if not isinstance(value, dict):
            raise NotASchema(_complaint(pointer, "an object of schemas", value))
        return {name: _subschema(inner, f"{pointer}/{name}") for name, inner in value.items()}
    if key in _SCHEMA_LISTS or (key == "items" and isinstance(value, list) and value):
        if not isinstance(value, list):
            raise NotASchema(_complaint(pointer, "a list of schemas", value))
        return [_subschema(inner, f"{pointer}/{n}") for n, inner in enumerate(value)]
    return _subschema(value, pointer) if key in _SCHEMAS else value


def _is_empty_list(value: Any) -> bool:
    return isinstance(value, list) and not value


def _complaint(pointer: str, wanted: str, value: Any) -> str:
    kinds = {
        str: "a text",
        list: "a list",
        dict: "an object",
        bool: "a boolean",
        type(None): "null",
    }
    found = kinds.get(type(value), "a number")
    place = f"{clipped(pointer, 200)} must be" if pointer else "must be"
    return f"{place} {wanted}, not {found}"
