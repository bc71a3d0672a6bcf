"""What a schema says of a value, in the terms of a grammar that is no JSON.

It is a schema for the back end, as `server/schema` prepares it: with plain references, and without
keywords that the back end does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from server.schema.definitions import target_of
from server.schema.keywords import type_names, types_of

JsonObject = dict[str, Any]
Way = tuple[JsonObject, ...]

MAX_WAYS = 48
MAX_DEPTH = 64
EVERYTHING = types_of({})
_COMBINING = {"allOf", "anyOf", "$ref", "$defs"}
_UNCOUNTED = {"minProperties", "maxProperties", "patternProperties"}


class Tangled(ValueError):
    """A schema has too many ways to be taken apart."""


@dataclass(frozen=True)
class Members:
    """One way to make an object: its listed members in order, and the schema of any others.

    `others` False: there are none. Their names match one of `name_patterns`, if there are any. Not
    `exact`: more is let through than the schema allows.
    """

    listed: dict[str, Any]
    required: frozenset[str]
    others: Any
    name_patterns: tuple[str, ...]
    exact: bool


@dataclass(frozen=True)
class Items:
    """One way to make an array: `first` stand in front, all others satisfy `rest`."""

    first: tuple[Any, ...]
    rest: Any
    least: int
    most: int | None


class Shapes:
    """Takes schemas apart; `definitions` are those of the whole."""

    def __init__(self, definitions: JsonObject) -> None:
        self._definitions = definitions

    def ways(self, schema: Any, depth: int = 0) -> list[Way]:
        """The alternatives of a schema, each as schemas that hold together and combine no others.

        Raises Tangled.
        """
        if not isinstance(schema, dict):
            return [()] if schema else []
        if depth > MAX_DEPTH:
            raise Tangled
        own = {key: value for key, value in schema.items() if key not in _COMBINING}
        together: list[list[Way]] = [[(own,)] if own else [()]]
        if target := target_of(schema):
            together.append(self.ways(self._definitions[target], depth + 1))
        together += [self.ways(part, depth + 1) for part in schema.get("allOf", ())]
        if "anyOf" in schema:
            branches = [self.ways(part, depth + 1) for part in schema["anyOf"]]
            together.append([way for branch in branches for way in branch])
        count = 1
        for each in together:
            count *= len(each)
        if count > MAX_WAYS:
            raise Tangled
        return [sum(parts, ()) for parts in product(*together)]

    def kinds(self, schema: Any) -> frozenset[str]:
        """The types that a value may have, perhaps some more."""
        values = self.listed_values(schema)
        if values is not None:
            return frozenset[str]().union(*map(type_names, values))
        try:
            return frozenset[str]().union(*map(kinds_of, self.ways(schema)))
        except Tangled:
            return EVERYTHING

    def listed_values(self, schema: Any) -> list[Any] | None:
        """All values that may satisfy a schema, None if they are not listed."""
        try:
            ways = self.ways(schema)
        except Tangled:
            return None
        values: list[Any] = []
        for way in ways:
            listed = _listed(way)
            if listed is None:
                return None
            values += [value for value in listed if not any(_same(value, one) for one in values)]
        return values if ways else None

    def only(self, kinds: Collection[str], schema: Any) -> Any:
        """A schema by itself, for its values of these types."""
        if not self.kinds(schema) <= {*kinds}:
            schema = both([{"type": sorted(kinds)}, schema])
        return self._with_definitions(schema) if isinstance(schema, dict) else schema

    def _with_definitions(self, schema: JsonObject) -> JsonObject:
        needed: dict[str, Any] = {}
        waiting = list(_targets(schema))
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed[name] = self._definitions[name]
                waiting += _targets(needed[name])
        return {**schema, "$defs": needed} if needed else schema


def kinds_of(way: Way) -> frozenset[str]:
    kinds = EVERYTHING
    for part in way:
        kinds &= types_of(part)
    return kinds


def members(way: Way) -> Members | None:
    """How an object is made in this way; None if it cannot be one."""
    if "object" not in kinds_of(way) or _listed(way) is not None:
        return None
    names = dict.fromkeys(name for part in way for name in part.get("properties", ()))
    required = frozenset(name for part in way for name in part.get("required", ()))
    names.update(dict.fromkeys(name for part in way for name in part.get("required", ())))
    listed: dict[str, Any] = {}
    for name in names:
        schema = both(_member(part, name) for part in way)
        if schema is not False:
            listed[name] = schema
        elif name in required:
            return None
    return Members(
        listed=listed,
        required=required,
        others=both(_others(part) for part in way),
        name_patterns=tuple(
            each
            for part in way
            if part.get("additionalProperties", True) is False
            for each in part.get("patternProperties", ())
        ),
        exact=not any(part.keys() & _UNCOUNTED for part in way),
    )


def items(way: Way) -> Items | None:
    """How an array is made in this way; None if it cannot be one."""
    if "array" not in kinds_of(way) or _listed(way) is not None:
        return None
    length = max((len(part.get("prefixItems", ())) for part in way), default=0)
    first = tuple(both(_item(part, index) for part in way) for index in range(length))
    least = max((part.get("minItems", 0) for part in way), default=0)
    limits = [part["maxItems"] for part in way if "maxItems" in part]
    rest = both(part.get("items", True) for part in way)
    if rest is False:
        limits.append(length)
    if False in first:
        limits.append(first.index(False))
    most = min(limits, default=None)
    return None if most is not None and most < least else Items(first, rest, least, most)


def both(schemas: Iterable[Any]) -> Any:
    """A schema that says what all of them say."""
    told: list[Any] = []
    for schema in schemas:
        if schema is False:
            return False
        if schema is not True and schema != {} and schema not in told:
            told.append(schema)
    return True if not told else told[0] if len(told) == 1 else {"allOf": told}


def _member(part: JsonObject, name: str) -> Any:
    if name in part.get("properties", ()):
        return part["properties"][name]
    return _others(part)


def _others(part: JsonObject) -> Any:
    """The schema of a member that is not listed; names are not looked at."""
    if "patternProperties" not in part:
        return part.get("additionalProperties", True)
    if part.get("additionalProperties", True) is not False:
        return True
    schemas = list(part["patternProperties"].values())
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _item(part: JsonObject, index: int) -> Any:
    first = part.get("prefixItems", ())
    return first[index] if index < len(first) else part.get("items", True)


def _listed(way: Way) -> list[Any] | None:
    lists = [part["enum"] for part in way if "enum" in part]
    lists += [[part["const"]] for part in way if "const" in part]
    if not lists:
        return None
    first, *others = lists
    kinds = kinds_of(way)
    return [
        value
        for value in first
        if all(any(_same(value, one) for one in other) for other in others)
        and type_names(value) & kinds
    ]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _targets(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if target := target_of(schema):
            yield target
        for value in schema.values():
            yield from _targets(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _targets(value)
