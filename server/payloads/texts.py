"""Texts that stand in an answer as they are, up to the marker that ends them.

The marker itself can stand in no text: the notations know no escape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from server.payloads.rules import Rules, exactly, pattern, quoted
from server.payloads.shapes import Shapes, Tangled, Way, kinds_of

ANY = "(?s:.*)"
_H = "[0-9a-fA-F]{1,4}"
_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
# Narrower than the formats, and in the words of both engines.
FORMATS = {
    "email": rf"[a-zA-Z0-9_+-]+(?:\.[a-zA-Z0-9_+-]+)*@{_LABEL}(?:\.{_LABEL})+",
    "hostname": rf"{_LABEL}(?:\.{_LABEL})*",
    "ipv6": f"(?:{_H}:){{7}}{_H}|(?:{_H}:){{1,7}}:|(?:{_H}:){{1,6}}:{_H}|::(?:{_H}:){{0,5}}{_H}",
    "uuid": "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": r"[a-zA-Z][a-zA-Z0-9+.-]*:[a-zA-Z0-9._~!$&'()*+,;=:@/?#%-]+",
    "duration": "P(?:[0-9]+[YMWD]|T[0-9]+[HMS]|[0-9]+DT[0-9]+H)",
}
_CLASS = regex.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.")


@dataclass(frozen=True)
class Texts:
    """Texts by patterns: one of the alternatives, and in it all. Not `exact`: some more."""

    alternatives: tuple[tuple[str, ...], ...]
    exact: bool


def texts(shapes: Shapes, schema: Any) -> Texts:
    """The texts that satisfy a schema; without alternatives if there are none."""
    try:
        ways = [way for way in shapes.ways(schema) if "string" in kinds_of(way)]
    except Tangled:
        return Texts(((),), False)
    read = [_patterns(way) for way in ways]
    return Texts(
        tuple(dict.fromkeys(patterns for patterns, _ in read)), all(exact for _, exact in read)
    )


def _patterns(way: Way) -> tuple[tuple[str, ...], bool]:
    found: list[str] = []
    exact = True
    for part in way:
        least, most = part.get("minLength", 0), part.get("maxLength")
        if least or most is not None:
            found.append(f"(?s:.){{{least},{'' if most is None else most}}}")
        if "format" in part:
            found += [FORMATS[part["format"]]] if part["format"] in FORMATS else []
        if "pattern" in part:
            anchored = whole(part["pattern"])
            exact &= anchored is not None
            found += [anchored] if anchored else []
    return tuple(dict.fromkeys(found)), exact


def whole(searched: str) -> str | None:
    """A pattern for whole texts in which another is found; None if its anchors are in the way."""
    bare = _CLASS.sub(lambda match: "x" * len(match[0]), searched)
    alternatives = []
    for begin, end in _alternatives(bare):
        left, right = bare[begin:end].startswith("^"), bare[begin:end].endswith("$")
        inner = slice(begin + left, end - right)
        if regex.search(r"[$^]", bare[inner]):
            return None
        before, after = "" if left else ANY, "" if right else ANY
        alternatives.append(f"{before}(?:{searched[inner]}){after}")
    return "|".join(alternatives)


def _alternatives(bare: str) -> Iterator[tuple[int, int]]:
    depth = begin = 0
    for position, char in enumerate(bare):
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            yield begin, position
            begin = position + 1
    yield begin, len(bare)


def ended_text(rules: Rules, patterns: Sequence[str], end: str, *, literal: bool) -> str:
    """A text that satisfies all patterns, up to the first `end`."""
    stop = end.rstrip()
    after = end[len(stop) :]
    parts = rules.parts(stop, literal=literal)
    without = f"~{pattern(ANY + exactly(stop) + ANY)}"
    bodies = [pattern(f"(?:{each})") for each in patterns] or [pattern(ANY)]
    lead = parts[0] if isinstance(parts[0], str) else ""
    following = quoted(after) if after else ""
    if lead == stop:
        terminal = rules.new(" & ".join([*bodies, without]), terminal=True)
        return f"{rules.new(terminal, suffix=stop)} {following}"
    rest = " ".join(
        f"<[{part}]>" if isinstance(part, int) else quoted(part)
        for part in (parts[1:] if lead else parts)
    )
    if lead:
        terminal = rules.new(" & ".join([*bodies, without]), terminal=True)
        terminal = rules.new(f"{terminal} {quoted(lead)}", terminal=True)
        return f"{terminal} {rest} {following}"
    terminal = rules.new(" & ".join([*bodies, without, pattern("(?s:.+)")]), terminal=True)
    may_be_empty = all(regex.fullmatch(each, "") for each in patterns)
    return f"{terminal}{'?' if may_be_empty else ''} {rest} {following}"
