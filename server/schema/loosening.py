"""What the back end turns out not to take of a schema is left out, as little as possible.

Its own message says too little, so its verdict is asked for one part after the other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from server.schema.definitions import PREFIX, target_of, without_definitions
from server.schema.keywords import LISTS, SINGLES, JsonObject, Refusal

LIMIT_S = 1.0  # of this thread's CPU time for one schema
UNSATISFIABLE = "Unsatisfiable"

DROPPED: tuple[tuple[str, ...], ...] = (
    *(
        (keyword,)
        for keyword in (
            "pattern minProperties maxProperties multipleOf minimum maximum exclusiveMinimum"
            " exclusiveMaximum format minLength maxLength minItems maxItems"
        ).split()
    ),
    ("patternProperties", "additionalProperties"),
    ("anyOf",),
    ("allOf",),
    ("enum",),
    ("const",),
    ("$ref",),
    ("properties", "patternProperties", "additionalProperties"),
    ("prefixItems", "items"),
    ("required",),
)
"""What is left out, in this order, each with what would else speak of more than before."""

Verdict = Callable[[JsonObject], str | None]
"""What the back end has against a schema: None if nothing."""


@dataclass
class Loosened:
    """`afterwards` are pointers and keywords of what was left out."""

    grammar: JsonObject
    afterwards: list[tuple[str, str]] = field(default_factory=list)


def loosen(schema: JsonObject, pointers: Mapping[int, str], verdict: Verdict) -> Loosened:
    """A schema that the back end takes. `pointers` say of its nodes where they come from.

    Raises Refusal where no value satisfies it, or nothing helps.
    """
    return _Loosener(schema, pointers, verdict).run()


class _Loosener:
    def __init__(self, schema: JsonObject, pointers: Mapping[int, str], verdict: Verdict) -> None:
        self._root = {key: value for key, value in schema.items() if key != "$defs"}
        self._pointers = {**pointers, id(self._root): ""}
        self._definitions = dict(schema.get("$defs", {}))
        self._verdict = verdict
        self._deadline = time.thread_time() + LIMIT_S
        self._fixed: set[str] = set()
        self._afterwards: list[tuple[str, str]] = []

    def run(self) -> Loosened:
        root = self._fix(self._root, "")
        error = self._error(root)
        if error is not None and UNSATISFIABLE in error:
            root = self._without_unsatisfiable(root)
            error = self._error(root)
        if error is not None and UNSATISFIABLE in error:
            pointer, node = self._unsatisfiable(root, "")
            error = self._error(node) or error
            raise Refusal(pointer, _keyword_of(error, node), error)
        if error is not None:
            raise Refusal("", "schema", error)
        return Loosened({**root, "$defs": self._definitions}, self._afterwards)

    def _error(self, schema: Any) -> str | None:
        if not isinstance(schema, dict):
            return None if schema is True else f"{UNSATISFIABLE} schema: it is false"
        if time.thread_time() > self._deadline:
            raise Refusal("", "schema", "there is too much in it that cannot be enforced")
        return self._verdict({**schema, "$defs": self._definitions})

    def _bad(self, schema: Any) -> bool:
        """Whether the back end cannot take a schema, which is not to say that no value can."""
        error = self._error(schema)
        return error is not None and UNSATISFIABLE not in error

    def _fix(self, node: Any, parent: str) -> Any:
        if not isinstance(node, dict):
            return node
        name = target_of(node)
        if (len(node) == 1 and name in self._fixed) or not self._bad(node):
            return node
        pointer = self._pointers.get(id(node), parent)
        result: JsonObject = {}
        for key, value in node.items():
            if key in SINGLES:
                result[key] = self._fix(value, pointer)
            elif key in LISTS:
                result[key] = [self._fix(inner, pointer) for inner in value]
            elif key in ("properties", "patternProperties"):
                result[key] = {name: self._fix(inner, pointer) for name, inner in value.items()}
            else:
                result[key] = value
        if name is not None and name not in self._fixed:
            self._fixed.add(name)
            body = self._definitions[name]
            self._definitions[name] = True  # what refers back to it is not to blame
            self._definitions[name] = self._fix(body, pointer)
        return self._less(result, pointer) if self._bad(result) else result

    def _less(self, node: JsonObject, pointer: str) -> JsonObject:
        """A node whose parts are all taken, without what they are not taken together with."""
        less = self._merged_patterns(node)
        dropped: list[tuple[str, ...]] = []
        if less is not node:
            dropped.append(("patternProperties",))
        for group in DROPPED:
            if not self._bad(less):
                break
            if group[0] in less:
                less = {key: value for key, value in less.items() if key not in group}
                dropped.append(group)
        for group in dropped[:-1]:
            more = {key: node[key] for key in node if key in less or key in group}
            if not self._bad(more):
                less = more
        for group in dropped:
            if group[0] not in less or less[group[0]] != node[group[0]]:
                self._afterwards.append((pointer, group[0]))
        return less

    def _merged_patterns(self, node: JsonObject) -> JsonObject:
        """Overlapping patterns of names as one, with any value."""
        patterns = node.get("patternProperties", {})
        if len(patterns) < 2:
            return node
        together = "|".join(f"(?:{pattern})" for pattern in patterns)
        return {**node, "patternProperties": {together: True}}

    def _without_unsatisfiable(self, root: JsonObject) -> JsonObject:
        """The root, with the references gone to definitions that no value satisfies."""
        names = {
            name
            for name in self._definitions
            if UNSATISFIABLE in (self._error({"$ref": PREFIX + name}) or "")
        }
        pruned = without_definitions({**root, "$defs": self._definitions}, names)
        self._definitions = pruned.pop("$defs", {})
        return pruned

    def _unsatisfiable(self, node: JsonObject, pointer: str) -> tuple[str, JsonObject]:
        """The innermost node to blame for it that no value satisfies the outermost."""
        for inner in _demanded(node):
            if isinstance(inner, dict) and UNSATISFIABLE in (self._error(inner) or ""):
                return self._unsatisfiable(inner, self._pointers.get(id(inner), pointer))
        return pointer, node


def _demanded(node: JsonObject) -> Iterator[Any]:
    """The subschemas that some part of every value has to satisfy, and alternatives."""
    properties = node.get("properties", {})
    yield from (properties[name] for name in node.get("required", ()) if name in properties)
    yield from node.get("allOf", ())
    yield from node.get("anyOf", ())
    if node.get("minItems"):
        yield from node.get("prefixItems", ())
        yield node.get("items", True)


def _keyword_of(error: str, node: JsonObject) -> str:
    """The keyword that a message speaks of."""
    for keyword in node:
        if re.search(rf"\b{re.escape(keyword)}\b", error):
            return keyword
    told = [key for key in node if key not in ("type", "$defs")]
    return told[0] if told else "schema"
