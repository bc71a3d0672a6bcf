"""What says exactly that a schema does not hold, in words that the back end knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from server.schema.keywords import SAYING, TYPES, JsonObject, canonical, types_of


def negated(schema: Any, beside: JsonObject) -> Any:
    """A schema that holds for just those values for which `schema` does not; None if unknown.

    Only values for which `beside` holds count.
    """
    if not isinstance(schema, dict):
        return False if schema else True
    ways = []
    for keyword in schema.keys() & SAYING:
        way = _WAYS.get(keyword, _unknown)(schema[keyword], beside)
        if way is None:
            return None
        ways.append(way)
    if not ways:
        return False
    return ways[0] if len(ways) == 1 else {"anyOf": ways}


def _unknown(value: Any, beside: JsonObject) -> Any:
    return None


def _type(value: str | list[str], beside: JsonObject) -> Any:
    named = types_of({"type": value})
    if "integer" in named and "number" not in named:
        return None  # the numbers that are not whole
    others = [name for name in TYPES if name not in named]
    return {"type": others} if others else False


def _enum(values: list[Any], beside: JsonObject) -> Any:
    refused = {canonical(each) for each in values}
    known = [True, False] if beside.get("type") == "boolean" else beside.get("enum")
    if known is None:
        return None
    rest = [each for each in known if canonical(each) not in refused]
    return {"enum": rest} if rest else False


def _const(value: Any, beside: JsonObject) -> Any:
    return _enum([value], beside)


def _required(names: list[str], beside: JsonObject) -> Any:
    return _any_object([{"properties": {name: False}} for name in names])


def _properties(properties: JsonObject, beside: JsonObject) -> Any:
    ways = []
    for name, schema in properties.items():
        listed = beside.get("properties", {}).get(name)
        way = negated(schema, listed if isinstance(listed, dict) else {})
        if way is None:
            return None
        if way is not False:
            ways.append({"required": [name], "properties": {name: way}})
    return _any_object(ways)


def _any_object(ways: list[JsonObject]) -> Any:
    """An object for which one of the schemas holds: what speaks of members holds for the rest."""
    if not ways:
        return False
    return {"type": "object", **(ways[0] if len(ways) == 1 else {"anyOf": ways})}


_WAYS: dict[str, Callable[[Any, JsonObject], Any]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "properties": _properties,
}
