"""The grammar of an answer, composed per request as Lark text for llguidance. Pure.

Syntax: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md. A marker that is one
vocabulary entry is a token reference, `<[151657]>`; as a literal it would never be accepted.
Whitespace is fixed in the style the models were trained on, so that everything outside values is
forced and need not be decoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from server.surface import IDS, PLACEHOLDER, Surface, flexible

JsonObject = dict[str, Any]

STYLE = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
MAX_CALLS = 32  # in one turn; a small model may never find an end

SplitSpecial = Callable[[str], list[str | int]]


@dataclass(frozen=True)
class Offer:
    """A tool that may be called: its name and the schema for the back end."""

    name: str
    schema: JsonObject


@dataclass
class _Rules:
    """Lark rules under construction."""

    split_special: SplitSpecial
    lines: list[str] = field(default_factory=list)

    def add(self, name: str, body: str) -> str:
        self.lines.append(f"{name}: {body}")
        return name

    def text(self, text: str, *, literal: bool) -> str:
        """A fixed text; special tokens in it become token references unless `literal`."""
        parts: list[str | int] = [text] if literal else self.split_special(text)
        return " ".join(
            f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False)
            for part in parts
            if part != ""
        )


def json_grammar(schema: JsonObject) -> str:
    """An answer that is JSON of a schema and nothing else."""
    return _lark(["start: " + _json(schema)])


def calls_grammar(
    ways: Sequence[Surface],
    offers: Sequence[Offer],
    *,
    parallel: bool,
    ends: Sequence[str],
    split_special: SplitSpecial,
    or_json: JsonObject | None = None,
) -> str:
    """One or more calls of the offered tools, written in one of the `ways`.

    `ends` are texts that may close the turn where no token does. `or_json`: or else JSON of that
    schema.
    """
    rules = _Rules(split_special)
    for index, offer in enumerate(offers):
        rules.add(f"args_{index}", _json(offer.schema))
    turns = [
        _turn(rules, f"way_{number}", way, offers, parallel=parallel)
        for number, way in enumerate(ways)
    ]
    if or_json is not None:
        turns.append(rules.add("answer", _json(or_json)))
    closing = " | ".join(rules.text(end, literal=False) for end in ends)
    rules.add("start", f"({' | '.join(turns)})" + (f" ({closing})?" if closing else ""))
    return _lark(rules.lines)


def _turn(
    rules: _Rules, name: str, way: Surface, offers: Sequence[Offer], *, parallel: bool
) -> str:
    alternatives = [
        rules.add(f"{name}_{index}", _call(rules, way, offer, index))
        for index, offer in enumerate(offers)
    ]
    call = rules.add(f"{name}_call", " | ".join(alternatives))
    opening = _opening(rules, way)
    closing = rules.text(way.close, literal=way.literal)
    if not parallel:
        return rules.add(name, f"{opening} {call} {closing}")
    sep = rules.text(way.sep, literal=way.literal)
    rules.add(f"{name}_more", f"{sep} {call}")
    # White space is no promise of another call: models write it out of habit and then end.
    trail = "" if closing or way.sep.strip() or not sep else f"({sep})?"
    once = rules.add(name, f"{opening} {call} {name}_more{{0,{MAX_CALLS - 1}}} {closing} {trail}")
    if way.native or not way.close:
        return once
    # Models that write a fence write one per call.
    rules.add(f"{name}_again", f"/\\n{{1,2}}/ {once}")
    return rules.add(f"{name}_turns", f"{once} {name}_again{{0,{MAX_CALLS - 1}}}")


def _opening(rules: _Rules, way: Surface) -> str:
    if way.native or not way.open:
        return rules.text(way.open, literal=way.literal)
    return (
        _pattern(flexible(way.open))
        if way.literal or "```" in way.open
        else rules.text(way.open, literal=False)
    )


def _call(rules: _Rules, way: Surface, offer: Offer, index: int) -> str:
    """One call of one tool. Up to the name a loose surface allows for white space."""
    parts = PLACEHOLDER.split(way.call)
    body = []
    if not way.native and parts[1] == "name" and parts[0].lstrip().startswith("{"):
        # A terminal of its own: what comes before the name may be spelled in several ways.
        body.append(_pattern(flexible(parts[0]) + re.escape(offer.name)))
        parts = ["", "", *parts[2:]]
    for position, part in enumerate(parts):
        if position % 2 == 0:
            body.append(rules.text(part, literal=way.literal))
        elif part:
            body.append(_placeholder(part, way.ids, offer.name, index))
    return " ".join(piece for piece in body if piece)


def _placeholder(kind: str, ids: str, name: str, index: int) -> str:
    if kind == "name":
        return json.dumps(name)
    if kind == "args":
        return f"args_{index}"
    if kind == "id" and ids == "kimi":
        return f"{json.dumps(f'functions.{name}:')} {_pattern(IDS['index'])}"
    return _pattern(IDS[ids] if kind == "id" else IDS["index"])


def _pattern(pattern: str) -> str:
    return "/" + pattern.replace("/", r"\/") + "/"


def _json(schema: JsonObject) -> str:
    return "%json " + json.dumps({**schema, "x-guidance": STYLE}, ensure_ascii=False)


def _lark(lines: Sequence[str]) -> str:
    return "\n".join(["%llguidance {}", *lines]) + "\n"
