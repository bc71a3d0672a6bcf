"""Where the references of a schema lead: within the schema itself, or to the meta-schemas.

Nothing is ever fetched.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from server.schema.keywords import JsonObject, Refusal, check_shape, children, nodes

REFERENCES = ("$ref", "$dynamicRef")


@dataclass(frozen=True)
class Place:
    """A place in a schema: its JSON pointer for messages, and how references read from there."""

    pointer: str
    resolver: Any

    def inside(self, schema: Any, path: str = "") -> Place:
        """The place of a subschema. Raises Refusal for an `$id` that is no URI."""
        resolver = self.resolver
        if isinstance(schema, dict) and "$id" in schema:
            try:
                resolver = resolver.in_subresource(DRAFT202012.create_resource(schema))
            except ValueError as exc:
                raise Refusal(self.pointer + path, "$id", str(exc)) from None
        return Place(self.pointer + path, resolver)


@dataclass(frozen=True)
class Target:
    schema: Any
    at: Place


class References:
    """The references of one schema, in draft 2020-12 and of the right shape.

    `registry` has the schema by all its identifiers, and the meta-schemas. Raises Refusal.
    """

    def __init__(self, schema: JsonObject) -> None:
        try:
            resource = DRAFT202012.create_resource(schema)
            self.registry = REGISTRY.with_resource(resource.id() or "", resource).crawl()
            self.root = Place("", self.registry.resolver(resource.id() or ""))
        except ValueError as exc:
            raise Refusal("", "$id", str(exc)) from None
        self._dynamic = Counter(
            node["$dynamicAnchor"] for _, node in nodes(schema) if "$dynamicAnchor" in node
        )
        inner = (node for pointer, node in nodes(schema) if pointer)
        self._plain = None if any("$id" in node for node in inner) else schema
        self._sound: set[int] = set()
        self._check(schema, self.root)

    def target(self, keyword: str, reference: str, at: Place) -> Target | None:
        """What a reference leads to; None if that depends on how it was come by.

        Raises Refusal if it leads nowhere.
        """
        if self._plain is not None and at.resolver is self.root.resolver:
            local = at_pointer(self._plain, reference)
            if local is not None:
                return Target(local, Place(unquote(reference[1:]), at.resolver))
        try:
            found = at.resolver.lookup(reference)
        except (Unresolvable, NoSuchResource, ValueError):
            why = f"{reference!r} leads nowhere in this schema, and nothing is fetched"
            raise Refusal(at.pointer, keyword, why) from None
        if keyword == "$dynamicRef":
            anchor = reference.partition("#")[2]
            if self._dynamic[anchor] > 1 or not reference.startswith("#"):
                return None
        local = reference == "#" or reference.startswith("#/")
        pointer = unquote(reference[1:]) if local else reference
        return Target(found.contents, Place(pointer, found.resolver))

    def _check(self, schema: Any, at: Place) -> None:
        """Raise Refusal for what cannot be followed, or leads to what is no schema."""
        waiting = [(schema, at)]
        while waiting:
            schema, at = waiting.pop()
            if not isinstance(schema, dict) or id(schema) in self._sound:
                continue
            self._sound.add(id(schema))
            for keyword in REFERENCES:
                if keyword in schema:
                    target = self.target(keyword, schema[keyword], at)
                    if target is not None and id(target.schema) not in self._sound:
                        check_shape(target.schema, target.at.pointer)
                        waiting.append((target.schema, target.at))
            waiting += [(inner, at.inside(inner, path)) for path, inner in children(schema)]


def at_pointer(schema: Any, reference: str) -> Any:
    """What a reference by pointer leads to within a schema without other identifiers, if so."""
    if not reference.startswith("#/"):
        return None
    for token in unquote(reference[2:]).split("/"):
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and token.isdecimal() and int(token) < len(schema):
            schema = schema[int(token)]
        elif isinstance(schema, dict) and token in schema:
            schema = schema[token]
        else:
            return None
    return schema
