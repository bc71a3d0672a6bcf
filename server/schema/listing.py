"""Which members a schema lists for an object, over all subschemas that speak of the same object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from server.schema.keywords import JsonObject
from server.schema.references import REFERENCES, Place, References

MAX_STEPS = 200_000
ALTERNATIVES = ("anyOf", "oneOf")
CONJUNCTIVE = frozenset("allOf $ref $dynamicRef dependentSchemas if".split())
"""Keywords that let other subschemas speak of the same object, whatever it is."""


class TooLarge(ValueError):
    """More work than a request is worth."""


@dataclass
class Listing:
    """`names` are listed by `properties`, `required` demanded, both in order.

    `more`: something is said of members that are not listed, so that they may exist.
    """

    names: dict[str, None] = field(default_factory=dict)
    required: dict[str, None] = field(default_factory=dict)
    more: bool = False


class Lister:
    """Makes listings. The work in all is bounded: raises TooLarge."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._steps = 0
        self._known: dict[tuple[int, ...], Listing] = {}  # by the identity of the schemas

    def own(self, schema: JsonObject) -> Listing:
        """What the keywords of this schema itself list."""
        result = Listing(
            dict.fromkeys(schema.get("properties", ())), dict.fromkeys(schema.get("required", ()))
        )
        closed = schema.get("additionalProperties", True) is False
        speaks = "additionalProperties" in schema or "patternProperties" in schema
        result.more = not closed and (
            speaks or schema.get("unevaluatedProperties", False) is not False
        )
        return result

    def all(self, *schemas: tuple[Any, Place]) -> Listing:
        """What these schemas list together with all that speaks of the same object."""
        key = tuple(id(schema) for schema, _ in schemas)
        if key not in self._known:
            self._known[key] = self._all(schemas)
        return self._known[key]

    def _all(self, schemas: Sequence[tuple[Any, Place]]) -> Listing:
        result = Listing()
        seen: set[int] = set()
        waiting = list(reversed(schemas))
        while waiting:
            schema, at = waiting.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise TooLarge
            own = self.own(schema)
            result.names |= own.names
            result.required |= own.required
            result.more |= own.more
            found = [item for group in self._beside(schema, at) for item in group]
            result.more |= None in found
            waiting += [item for item in reversed(found) if item is not None]
        return result

    def shared(self, schema: JsonObject, at: Place) -> frozenset[str]:
        """The members that are listed in two places which may both hold for an object."""
        once: set[str] = set(schema.get("properties", ()))
        twice: set[str] = set()
        for group in self._beside(schema, at):
            names = self.all(*(item for item in group if item is not None)).names.keys()
            twice |= once & names
            once |= names
        return frozenset(twice)

    def _beside(self, schema: JsonObject, at: Place) -> list[list[tuple[Any, Place] | None]]:
        """The subschemas that may hold for the same object; None for one that is not known.

        In groups: of what is in one, not all holds together.
        """

        def inner(*path: str | int) -> tuple[Any, Place]:
            found: Any = schema
            for step in path:
                found = found[step]
            return found, at.inside(found, "".join(f"/{step}" for step in path))

        groups: list[list[tuple[Any, Place] | None]] = []
        groups += [[inner("allOf", index)] for index in range(len(schema.get("allOf", ())))]
        for keyword in REFERENCES:
            if keyword in schema:
                target = self._references.target(keyword, schema[keyword], at)
                groups.append([(target.schema, target.at) if target else None])
        for keyword in ALTERNATIVES:
            groups.append([inner(keyword, index) for index in range(len(schema.get(keyword, ())))])
        groups += [[inner(keyword)] for keyword in ("if", "then", "else") if keyword in schema]
        groups += [[inner("dependentSchemas", name)] for name in schema.get("dependentSchemas", ())]
        return groups
