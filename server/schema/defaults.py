"""Defaults of a schema for members that finished arguments leave out, where a client asks for it.

A default is put in where it is certain what it is the default of: in an object of `properties`, and
in those within it, also through `items`, `prefixItems`, `allOf`, a reference within the schema, and
the one alternative that is an object. What is put in must satisfy the schema with all the rest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from server.json_text import Layout
from server.schema.checker import Path, Uncheckable
from server.schema.dialect import modern
from server.schema.keywords import JsonObject, types_of
from server.schema.references import at_pointer

MAX_DEPTH = 64
MAX_MEMBERS = 1_000  # that are put in
LIMIT_S = 0.5  # of this thread's CPU time for one call


class Checker(Protocol):
    def complaints(self, value: Any) -> list[Any]: ...


@dataclass(frozen=True)
class Missing:
    """A member that the object at `path` does not have."""

    path: Path
    name: str
    default: Any


class Defaults:
    """The defaults of one schema. `nested`: some are of objects within the arguments."""

    def __init__(self, schema: JsonObject, checker: Checker) -> None:
        self._schema = modern(schema)
        self._checker = checker
        top = self._schema.get("properties", {})
        self.nested = not self._schema.keys() <= _PLAIN or any(map(_may_have, top.values()))

    def complete(self, text: str) -> str:
        """Arguments that satisfy the schema, with defaults put in before the braces they belong to.

        If they do not hold together, as many as do, from the first on.
        """
        value = json.loads(text)
        missing = list(self._missing(self._schema, value, (), 0))[:MAX_MEMBERS]
        deadline = time.thread_time() + LIMIT_S
        if self._holds(value, missing):
            return _put_in(text, missing)
        kept: list[Missing] = []
        for one in missing:
            if time.thread_time() > deadline:
                break
            if self._holds(value, [*kept, one]):
                kept.append(one)
        return _put_in(text, kept)

    def _holds(self, value: Any, missing: list[Missing]) -> bool:
        completed = json.loads(json.dumps(value))
        for one in missing:
            inner = completed
            for step in one.path:
                inner = inner[step]
            inner[one.name] = one.default
        try:
            return not self._checker.complaints(completed)
        except Uncheckable:
            return False

    def _missing(self, schema: Any, value: Any, path: Path, depth: int) -> Iterator[Missing]:
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return
        for inner in self._beside(schema):
            yield from self._missing(inner, value, path, depth + 1)
        if isinstance(value, dict):
            for name, inner in schema.get("properties", {}).items():
                if name in value:
                    yield from self._missing(inner, value[name], (*path, name), depth + 1)
                elif isinstance(inner, dict) and "default" in inner:
                    yield Missing(path, name, inner["default"])
        elif isinstance(value, list):
            prefix = schema.get("prefixItems", [])
            for index, item in enumerate(value):
                inner = prefix[index] if index < len(prefix) else schema.get("items")
                yield from self._missing(inner, item, (*path, index), depth + 1)

    def _beside(self, schema: JsonObject) -> Iterator[Any]:
        """The subschemas that surely speak of the same object."""
        if "$ref" in schema:
            local = at_pointer(self._schema, schema["$ref"])
            yield self._schema if schema["$ref"] == "#" else local
        yield from schema.get("allOf", ())
        for keyword in ("anyOf", "oneOf"):
            objects = [inner for inner in schema.get(keyword, ()) if self._is_structured(inner)]
            if len(objects) == 1:
                yield objects[0]

    def _is_structured(self, schema: Any) -> bool:
        return isinstance(schema, dict) and bool(types_of(schema) & {"object", "array"})


_PLAIN = frozenset(
    "type title description properties required additionalProperties $schema $defs definitions"
    " x-callwright-apply-defaults".split()
)


def _may_have(schema: Any) -> bool:
    """Whether there may be defaults of members within a value of a schema."""
    if not isinstance(schema, dict):
        return False
    within = {"properties", "items", "prefixItems", "$ref", "allOf", "anyOf", "oneOf"}
    return bool(schema.keys() & within)


def _put_in(text: str, missing: list[Missing]) -> str:
    """The text with members at the ends of their objects, which stay as they were written."""
    if not missing:
        return text
    members: dict[Path, dict[str, Any]] = {}
    for one in missing:
        members.setdefault(one.path, {})[one.name] = one.default
    spans = Layout.of(text).spans
    for path in sorted(members, key=lambda path: spans[path][1], reverse=True):
        end = spans[path][1] - 1
        before = text[:end].rstrip()
        added = json.dumps(members[path], ensure_ascii=False)[1:-1]
        text = before + ("" if before.endswith("{") else ", ") + added + text[end:]
    return text
