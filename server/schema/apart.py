"""Whether two schemas can hold for the same value: `oneOf` over schemas that cannot is `anyOf`."""

from __future__ import annotations

from typing import Any

from server.schema.keywords import canonical, type_names, types_of
from server.schema.references import Place, References

MAX_PAIRS = 3000  # that are looked at for one oneOf
MAX_DEPTH = 8
TELLING = {"type", "enum", "const", "properties"}


def all_apart(branches: list[tuple[Any, Place]], references: References) -> bool:
    """True if no value satisfies two of the branches; False if that cannot be told."""
    if len(branches) * (len(branches) - 1) / 2 > MAX_PAIRS:
        return False
    return all(
        _Pair(references).apart(one, other, MAX_DEPTH)
        for position, one in enumerate(branches)
        for other in branches[:position]
    )


class _Pair:
    def __init__(self, references: References) -> None:
        self._references = references

    def apart(self, one: tuple[Any, Place], other: tuple[Any, Place], depth: int) -> bool:
        one, other = self._followed(one), self._followed(other)
        first, second = one[0], other[0]
        if first is False or second is False:
            return True
        if depth == 0 or not isinstance(first, dict) or not isinstance(second, dict):
            return False
        if not _kinds(first) & _kinds(second) or _values_apart(first, second):
            return True
        return (
            self._branches_apart(one, other, depth - 1)
            or self._branches_apart(other, one, depth - 1)
            or self._members_apart(one, other, depth - 1)
            or self._members_apart(other, one, depth - 1)
        )

    def _followed(self, schema: tuple[Any, Place]) -> tuple[Any, Place]:
        """What a schema that is only a reference refers to."""
        inner, at = schema
        for _ in range(MAX_DEPTH):
            if not isinstance(inner, dict) or "$ref" not in inner or inner.keys() & TELLING:
                break
            target = self._references.target("$ref", inner["$ref"], at)
            if target is None:
                break
            inner, at = target.schema, target.at
        return inner, at

    def _branches_apart(self, one: tuple[Any, Place], other: tuple[Any, Place], depth: int) -> bool:
        schema, at = one
        for keyword in ("anyOf", "oneOf", "allOf"):
            verdicts = (
                self.apart((inner, at.inside(inner)), other, depth)
                for inner in schema.get(keyword, ())
            )
            if keyword in schema and (any(verdicts) if keyword == "allOf" else all(verdicts)):
                return True
        return False

    def _members_apart(self, one: tuple[Any, Place], other: tuple[Any, Place], depth: int) -> bool:
        """Whether a member that `one` demands is refused by `other`, both being of objects only."""
        (first, here), (second, there) = one, other
        if not (_kinds(first) == _kinds(second) == {"object"}):
            return False
        listed = second.get("properties", {})
        closed = second.get("additionalProperties") is False and "patternProperties" not in second
        for name in first.get("required", ()):
            if closed and name not in listed:
                return True
            mine, theirs = first.get("properties", {}).get(name, True), listed.get(name, True)
            if self.apart((mine, here.inside(mine)), (theirs, there.inside(theirs)), depth):
                return True
        return False


def _kinds(schema: dict[str, Any]) -> frozenset[str]:
    """The types of the values that may satisfy a schema."""
    types, values = types_of(schema), _values(schema)
    return (
        types
        if values is None
        else types & {kind for value in values for kind in type_names(value)}
    )


def _values(schema: dict[str, Any]) -> list[Any] | None:
    """The values that a schema lists, if it does."""
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")


def _values_apart(first: dict[str, Any], second: dict[str, Any]) -> bool:
    one, other = _values(first), _values(second)
    return (
        one is not None
        and other is not None
        and not set(map(canonical, one)) & set(map(canonical, other))
    )
