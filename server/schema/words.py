"""What several keywords need to be put into the words of the back end."""

from __future__ import annotations

from server.schema import patterns
from server.schema.keywords import JsonObject, Refusal, nodes
from server.schema.narrow import LONGEST
from server.schema.patterns import Pattern
from server.schema.reduction import Handler, Node, Reducer

MAX_PATTERN_SIZE = 400_000  # of all patterns of a schema together
MAX_PATTERN_TEXT = 100_000  # characters of them: each is read one by one

IN_PLACE = frozenset(
    "allOf anyOf oneOf $ref $dynamicRef if then else dependentSchemas contains".split()
)
"""Keywords whose subschemas may evaluate the members and items of the same value."""


def lower_count(keyword: str) -> Handler:
    def put(reducer: Reducer, node: Node, value: int) -> None:
        if value > LONGEST:
            raise Refusal(node.at.pointer, keyword, f"no answer has {value} of anything")
        node.at_least(keyword, value)

    return put


def upper_count(keyword: str) -> Handler:
    def put(reducer: Reducer, node: Node, value: int) -> None:
        if value < LONGEST:
            node.at_most(keyword, value)

    return put


def check_patterns(schema: JsonObject) -> None:
    """Raise Refusal for what is no pattern, also where only the final check would read it."""
    length = 0
    for pointer, node in nodes(schema):
        names = node.get("patternProperties", ())
        length += sum(map(len, names)) + len(node.get("pattern", ""))
        if length > MAX_PATTERN_TEXT:
            why = f"the patterns of this schema have together more than {MAX_PATTERN_TEXT} letters"
            raise Refusal(pointer, "pattern", why)
        for pattern in names:
            _read(pattern, pointer, "patternProperties")
        if "pattern" in node:
            _read(node["pattern"], pointer, "pattern")


def _read(pattern: str, pointer: str, keyword: str) -> Pattern:
    try:
        return patterns.read(pattern)
    except patterns.BadPattern as exc:
        raise Refusal(pointer, keyword, f"not a regular expression: {exc}") from None


def read_pattern(reducer: Reducer, node: Node, keyword: str, pattern: str) -> Pattern:
    """A pattern as the back end reads it; what it cannot is noted for afterwards."""
    read = _read(pattern, node.at.pointer, keyword)
    reducer.pattern_size += read.size
    if reducer.pattern_size > MAX_PATTERN_SIZE:
        why = f"the patterns of this schema are together larger than {MAX_PATTERN_SIZE}"
        raise Refusal(node.at.pointer, keyword, why)
    if not read.exact:
        reducer.note(node, keyword)
    return read
