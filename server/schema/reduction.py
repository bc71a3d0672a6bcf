"""From a client's schema to one for the back end, which allows at least as much.

What the back end cannot enforce is left out and noted; what it can in other words is put into them.
Two rules are our own: an object whose members are listed has no others unless the schema speaks of
them, and references are resolved here, to definitions with plain names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from server.schema.keywords import JsonObject, Refusal, escaped, types_of
from server.schema.listing import ALTERNATIVES, CONJUNCTIVE, Lister
from server.schema.numbers import TIGHTEST, numbers_of
from server.schema.references import REFERENCES, Place, References, Target

HOIST = 16  # levels of a schema before a definition of its own: the back end limits nesting
MAX_NODES = 50_000
MAX_HOPS = 100  # from one mere reference to the next

EVERYTHING = types_of({})
IN_PLACE = CONJUNCTIVE.union(ALTERNATIVES)


@dataclass(frozen=True)
class Mode:
    """What the surroundings of a subschema say of the same value.

    `extra`: names that they list for an object; None where they see to it that it is closed.
    `kinds`: the types that they let through. `shared`: members of which they speak too. `partly`:
    they speak of the same value in ways not known here, so that nothing within can be closed.
    `numbers`: they have all that this schema says of numbers; `bounds`: they have bounds too.
    """

    extra: frozenset[str] | None = frozenset()
    kinds: frozenset[str] = EVERYTHING
    shared: frozenset[str] = frozenset()
    partly: bool = False
    numbers: bool = False
    bounds: bool = False


PARTLY = Mode(None, partly=True)


@dataclass(frozen=True)
class Closing:
    """How an object is closed: by `names` here, or in the alternatives (what they list is extra).

    `names` None: not here.
    """

    names: list[str] | None = None
    branches: dict[str, frozenset[str] | None] = field(default_factory=dict)


class Node:
    """A schema on its way to the back end: `result` grows, `conjuncts` hold beside it."""

    def __init__(self, schema: JsonObject, at: Place, mode: Mode, depth: int) -> None:
        self.schema = schema
        self.at = at
        self.mode = mode
        self.depth = depth
        self.kinds = types_of(schema) & mode.kinds
        self.closing = Closing()
        self.result: JsonObject = {}
        self.conjuncts: list[Any] = []

    def at_least(self, keyword: str, least: int) -> None:
        self.result[keyword] = max(self.result.get(keyword, 0), least)

    def at_most(self, keyword: str, most: int) -> None:
        self.result[keyword] = min(self.result.get(keyword, most), most)

    def inner(self, *path: str | int) -> tuple[Any, Place]:
        """A subschema with its place."""
        schema: Any = self.schema
        for step in path:
            schema = schema[step]
        return schema, self.at.inside(schema, "".join(f"/{escaped(str(step))}" for step in path))


Handler = Callable[["Reducer", Node, Any], None]
"""Puts the value of a keyword into the result of a node, in the back end's words."""


class Reducer:
    """Reduces one schema, its keywords by `handlers`.

    `afterwards` are the keywords left out, with their pointers. `loose_keys`: it has objects whose
    members the back end does not hold apart. `pointers` are where nodes of the result come from, by
    identity. `pattern_size` is that of all patterns so far, `conditions` the number of those that
    became alternatives. Raises Refusal.
    """

    def __init__(self, references: References, handlers: Mapping[str, Handler]) -> None:
        self.afterwards: list[tuple[str, str]] = []
        self.loose_keys = False
        self.pointers: dict[int, str] = {}
        self.references = references
        self._handlers = handlers
        self._lister = Lister(references)
        self._names: dict[tuple[int, Mode], str] = {}
        self._waiting: deque[tuple[str, Target, Mode]] = deque()
        self._nodes = 0
        self._joined: list[JsonObject] = []  # kept, as nodes are known by their identity
        self.pattern_size = 0
        self.conditions = 0

    def reduce(self, schema: JsonObject, *, arguments: bool) -> JsonObject:
        """The schema for the back end. `arguments`: its object is empty if nothing is listed."""
        kinds = types_of(schema) & ({"object"} if arguments else {"object", "array"})
        if not kinds:
            raise Refusal("", "type", "an answer in JSON is an object or an array")
        root = self._dict(schema, self.references.root, Mode(kinds=kinds), 0, top=arguments)
        root["type"] = sorted(kinds)
        definitions: JsonObject = {}
        while self._waiting:
            name, target, mode = self._waiting.popleft()
            definitions[name] = self._walk(target.schema, target.at, mode, 0)
        if definitions:
            root["$defs"] = definitions
        return root

    # A node

    def _walk(self, schema: Any, at: Place, mode: Mode, depth: int) -> Any:
        if not isinstance(schema, dict):
            self.loose_keys |= schema is True
            return schema
        if depth > HOIST:
            return self._define(Target(schema, at), mode)
        said = schema.keys() & self._handlers.keys()
        if len(said) == 1 and (keyword := next(iter(said))) in REFERENCES:
            return self.reference(keyword, schema[keyword], at, mode)
        if said == {"allOf"} and len(schema["allOf"]) == 1:
            inner = schema["allOf"][0]
            return self._walk(inner, at.inside(inner, "/allOf/0"), mode, depth + 1)
        return self._dict(schema, at, mode, depth)

    def _dict(
        self, schema: JsonObject, at: Place, mode: Mode, depth: int, *, top: bool = False
    ) -> JsonObject:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise Refusal(at.pointer, "schema", f"it has more than {MAX_NODES} parts")
        if schema.keys() & IN_PLACE:
            mode = replace(mode, shared=mode.shared | self._lister.shared(schema, at))
        if not mode.numbers and schema.keys() & {"allOf", "$ref"}:
            schema = self._with_numbers(schema, at)
        node = Node(schema, at, mode, depth)
        node.closing = self._closing(node, mode.extra, top=top)
        for keyword, value in schema.items():
            if keyword in self._handlers:
                self._handlers[keyword](self, node, value)
        if node.closing.names is not None and "object" in node.kinds:
            self._close(node, node.closing.names)
        if node.conjuncts:
            node.result["allOf"] = [*node.result.get("allOf", []), *node.conjuncts]
        if mode.extra is not None:
            self.loose_keys |= _loose(node)
        self.pointers[id(node.result)] = at.pointer
        return node.result

    def _with_numbers(self, schema: JsonObject, at: Place) -> JsonObject:
        """A schema with the keywords of numbers of all that speaks of the same value."""
        found = numbers_of(schema, at, self.references)
        if found.items() <= schema.items():
            return schema
        self._joined.append({**schema, **found})
        return self._joined[-1]

    def _closing(self, node: Node, extra: frozenset[str] | None, *, top: bool) -> Closing:
        schema, at = node.schema, node.at
        if extra is None and schema.get("unevaluatedProperties") is False:
            extra = frozenset()  # it sees what stands within only
        if "object" not in node.kinds and not schema.keys() & IN_PLACE:
            return Closing()
        own = self._lister.own(schema)
        if extra is None or own.more or schema.get("additionalProperties") is False:
            return Closing(branches=dict.fromkeys(ALTERNATIVES))
        names = [*own.names, *own.required, *sorted(extra)]
        bare = not {"minProperties", "propertyNames"} & schema.keys()
        demanded = bool(own.names or extra or (top and bare))
        if CONJUNCTIVE & schema.keys():
            together = self._lister.all((schema, at))
            if together.more or not (together.names or demanded):
                return Closing(branches=dict.fromkeys(ALTERNATIVES))
            names += [*together.names, *together.required]
            return Closing(names, dict.fromkeys(ALTERNATIVES))
        listings = {
            keyword: self._lister.all(
                *(node.inner(keyword, i) for i in range(len(schema[keyword])))
            )
            for keyword in ALTERNATIVES
            if keyword in schema
        }
        if any(each.more or each.names.keys() - set(names) for each in listings.values()):
            return Closing(
                branches={
                    keyword: frozenset(names).union(
                        *(each.names for other, each in listings.items() if other != keyword)
                    )
                    for keyword in listings
                }
            )
        if not demanded:
            return Closing(branches=dict.fromkeys(listings, frozenset()))
        for each in listings.values():
            names += each.required
        return Closing(names, dict.fromkeys(ALTERNATIVES))

    def _close(self, node: Node, names: list[str]) -> None:
        properties = node.result.setdefault("properties", {})
        for name in names:
            if name not in properties:
                properties[name] = True
                # Listed by another subschema, or else a member of which nothing is known.
                self.loose_keys |= name in node.schema.get("required", ())
        node.result["additionalProperties"] = False

    def note(self, node: Node, keyword: str) -> None:
        """A keyword is left out, to be checked afterwards."""
        self.afterwards.append((node.at.pointer, keyword))

    # References

    def reference(self, keyword: str, reference: str, at: Place, mode: Mode) -> Any:
        target = self.references.target(keyword, reference, at)
        for _ in range(MAX_HOPS):
            if target is None or not isinstance(target.schema, dict):
                break
            if target.schema.keys() & self._handlers.keys() != {"$ref"}:
                break
            keyword, reference, at = "$ref", target.schema["$ref"], target.at
            target = self.references.target(keyword, reference, at)
        else:
            raise Refusal(at.pointer, keyword, "it leads from one reference to the next")
        if target is None:
            self.afterwards.append((at.pointer, keyword))
            self.loose_keys = True
            return {}
        if not isinstance(target.schema, dict):
            return self._walk(target.schema, target.at, mode, 0)
        return self._define(target, mode)

    def joined_reference(self, node: Node, keyword: str, value: str) -> Any:
        """What a reference leads to, where it is one keyword among others."""
        mode = replace(_part_of(node), numbers=keyword == "$ref")
        return self.reference(keyword, value, node.at, mode)

    def _define(self, target: Target, mode: Mode) -> JsonObject:
        key = (id(target.schema), mode)
        if key not in self._names:
            self._names[key] = f"d{len(self._names)}"
            self._waiting.append((self._names[key], target, mode))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    # Subschemas

    def other(self, node: Node, *path: str | int) -> Any:
        """A subschema that speaks of another value: of a member or an item."""
        schema, at = node.inner(*path)
        return self._walk(schema, at, PARTLY if node.mode.partly else Mode(), node.depth + 1)

    def member(self, node: Node, name: str) -> Any:
        """The subschema of a listed member."""
        if name not in node.mode.shared:
            return self.other(node, "properties", name)
        schema, at = node.inner("properties", name)
        if isinstance(schema, dict) and not schema.keys() & {"const", "enum"}:
            self.loose_keys |= bool(types_of(schema) & {"object", "array"})
        return self._walk(schema, at, PARTLY, node.depth + 1)

    def part(self, node: Node, *path: str | int) -> Any:
        """A subschema that holds for the same value together with the rest."""
        schema, at = node.inner(*path)
        mode = replace(_part_of(node), numbers=path[0] == "allOf")
        return self._walk(schema, at, mode, node.depth + 1)

    def branches(self, node: Node, keyword: str) -> list[Any]:
        """The alternatives of `anyOf` or `oneOf`."""
        kinds = node.kinds - {"array"} if "items" in node.result else node.kinds
        mode = replace(
            _part_of(node), extra=node.closing.branches.get(keyword), kinds=kinds, numbers=False
        )
        return [
            self._walk(*node.inner(keyword, index), mode, node.depth + 1)
            for index in range(len(node.schema[keyword]))
        ]


def _part_of(node: Node) -> Mode:
    bounds = node.mode.bounds or bool(node.schema.keys() & TIGHTEST.keys())
    return replace(node.mode, extra=None, kinds=node.kinds, bounds=bounds)


def _loose(node: Node) -> bool:
    """Whether the back end lets members of a node through without a look at their names."""
    result = node.result
    if result.keys() & {"enum", "const"}:
        return False
    if any(extra is not None for extra in node.closing.branches.values()):
        return False  # it depends on the alternatives
    if "object" in node.kinds:
        closed = result.get("additionalProperties") is False
        if not closed or "patternProperties" in result:
            return True
    ends = result.get("maxItems", len(result.get("prefixItems", ())) + 1)
    return (
        "array" in node.kinds
        and "items" not in result
        and ends > len(result.get("prefixItems", ()))
    )
