"""How long the shortest value of a reduced schema is, about: the back end writes what is forced.

It does so at once and byte by byte, so that a schema whose values have a billion forced characters
would keep it busy for an hour.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from server.schema.definitions import target_of
from server.schema.keywords import JsonObject, Refusal, types_of

MAX_SHORTEST = 1_000_000  # characters: no context holds as many tokens
MAX_ROUNDS = 64

_PIECE = re.compile(
    r"\\U[0-9A-Fa-f]{8}|\\[pPxu]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?[^:()>=!]*[:>=!])?"
    r"|\{(\d+)(?:,\d*)?\}|.",
    re.DOTALL,
)

Lengths = dict[str, float]  # of definitions


def check_shortest(schema: JsonObject) -> None:
    """Raise Refusal if no answer is as long as the shortest value."""
    definitions = schema.get("$defs", {})
    known: Lengths = dict.fromkeys(definitions, math.inf)
    for _ in range(MAX_ROUNDS):
        changed = False
        for name, inner in reversed(definitions.items()):
            length = _shortest(inner, known)
            changed |= length < known[name]
            known[name] = min(known[name], length)
        if not changed:
            break
    length = _shortest(schema, known)
    if MAX_SHORTEST < length < math.inf:  # whether it ends at all is not judged here
        why = f"its shortest value is longer than {MAX_SHORTEST} characters"
        raise Refusal("", "schema", why)


def _shortest(schema: Any, known: Lengths) -> float:
    if schema is False:
        return math.inf
    if not isinstance(schema, dict):
        return 1
    beside = [_shortest(inner, known) for inner in schema.get("allOf", ())]
    if (name := target_of(schema)) is not None:
        beside.append(known.get(name, 0))
    if schema.get("anyOf"):
        beside.append(min(_shortest(inner, known) for inner in schema["anyOf"]))
    return max(_by_itself(schema, known), *beside, 0)


def _by_itself(schema: JsonObject, known: Lengths) -> float:
    """What the keywords say that do not refer to other schemas of the same value."""
    if "const" in schema:
        return len(json.dumps(schema["const"]))
    if schema.get("enum"):
        return min(len(json.dumps(value)) for value in schema["enum"])
    kinds = types_of(schema)
    if kinds - {"object", "array", "string"}:
        return 1
    ways = [math.inf]
    if "string" in kinds:
        pattern = shortest_match(schema.get("pattern", ""))
        ways.append(max(schema.get("minLength", 0), pattern) + 2)
    if "object" in kinds:
        ways.append(_object(schema, known))
    if "array" in kinds:
        ways.append(_array(schema, known))
    return min(ways)


def _object(schema: JsonObject, known: Lengths) -> float:
    properties = schema.get("properties", {})
    demanded = (
        len(name) + 4 + _shortest(properties.get(name, True), known)
        for name in schema.get("required", ())
    )
    return 2 + sum(demanded)


def _array(schema: JsonObject, known: Lengths) -> float:
    least, prefix = schema.get("minItems", 0), schema.get("prefixItems", [])
    written = sum(1 + _shortest(inner, known) for inner in prefix[:least])
    if least > len(prefix):
        written += (least - len(prefix)) * (1 + _shortest(schema.get("items", True), known))
    return 2 + written


def shortest_match(pattern: str) -> float:
    """About how long the shortest text is that a pattern matches; of alternatives all count."""
    groups: list[float] = [0]
    last = 0.0  # what a quantifier would repeat
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if text[0] == "(":
            groups.append(0)
            last = 0
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif text in ("*", "?"):
            groups[-1] -= last
            last = 0
        elif piece[1] is not None:
            groups[-1] += last * (int(piece[1]) - 1)
            last *= int(piece[1])
        elif text not in ("|", "+", "^", "$"):
            last = 1
            groups[-1] += last
    return min(sum(groups), 1e18)
