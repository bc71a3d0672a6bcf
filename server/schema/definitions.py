"""The definitions of a reduced schema: those that have no finite value, and how deep they lead."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from server.schema.keywords import JsonObject, Refusal, children, edited, types_of

MAX_LEVELS = 4000  # of schemas one within the other: the back end's compiler recurses
MAX_ROUNDS = 64
PREFIX = "#/$defs/"


def target_of(schema: JsonObject) -> str | None:
    """The name of the definition that a node refers to."""
    reference = schema.get("$ref")
    return reference.removeprefix(PREFIX) if isinstance(reference, str) else None


def without_endless(schema: JsonObject) -> JsonObject:
    """The schema with `false` for references to what can only go on without end.

    The back end would enter it and never come out. Raises Refusal if that is all there is.
    """
    definitions = schema.get("$defs", {})
    finite: set[str] = set()
    for _ in range(MAX_ROUNDS):
        found = {
            name
            for name, inner in reversed(definitions.items())
            if name not in finite and _ends(inner, finite)
        }
        finite |= found
        if not found:
            break
    else:
        return schema  # too entangled to tell
    if not _ends(schema, finite) and _ends(schema, {*definitions}):
        raise Refusal("", "$ref", "it demands something that contains itself without end")
    return without_definitions(schema, definitions.keys() - finite)


def without_definitions(schema: JsonObject, names: Set[str]) -> JsonObject:
    """The schema with `false` for references to these definitions."""
    if not names:
        return schema

    def edit(node: JsonObject) -> Any:
        return False if target_of(node) in names else node

    kept = {name: inner for name, inner in schema["$defs"].items() if name not in names}
    pruned = edited({**schema, "$defs": kept}, edit)
    return pruned if isinstance(pruned, dict) else {"enum": []}


def _ends(schema: Any, finite: set[str]) -> bool:
    """Whether some finite value satisfies a schema, as far as references go."""
    if not isinstance(schema, dict):
        return schema is not False
    name = target_of(schema)
    if name is not None and name not in finite:
        return False
    if not all(_ends(inner, finite) for inner in schema.get("allOf", ())):
        return False
    if "anyOf" in schema and not any(_ends(inner, finite) for inner in schema["anyOf"]):
        return False
    kinds = types_of(schema)
    if kinds - {"object", "array"}:
        return True
    return ("object" in kinds and _object_ends(schema, finite)) or (
        "array" in kinds and _array_ends(schema, finite)
    )


def _object_ends(schema: JsonObject, finite: set[str]) -> bool:
    properties = schema.get("properties", {})
    return all(_ends(properties.get(name, True), finite) for name in schema.get("required", ()))


def _array_ends(schema: JsonObject, finite: set[str]) -> bool:
    least, prefix = schema.get("minItems", 0), schema.get("prefixItems", [])
    demanded = [*prefix[:least], *([schema.get("items", True)] if least > len(prefix) else [])]
    return all(_ends(inner, finite) for inner in demanded)


def check_depth(schema: JsonObject) -> None:
    """Raise Refusal if the back end, which follows references as it meets them, would go too deep.

    It does so by recursion in native code, where going too deep ends the process.
    """
    definitions = schema.get("$defs", {})
    seen: set[str] = set()
    path = [_referred({key: value for key, value in schema.items() if key != "$defs"}, 0)]
    while path:
        name, level = next(path[-1], (None, 0))
        if name is None:
            path.pop()
        elif name not in seen:
            seen.add(name)
            if level > MAX_LEVELS:
                raise Refusal("", "$ref", f"references lead more than {MAX_LEVELS} levels deep")
            path.append(_referred(definitions.get(name), level))


def _referred(schema: Any, level: int) -> Iterator[tuple[str, int]]:
    """The definitions that a schema at some level refers to, each with the level of that."""
    if isinstance(schema, dict):
        name = target_of(schema)
        if name is not None:
            yield name, level + 1
        for _, inner in children(schema):
            yield from _referred(inner, level + 1)
