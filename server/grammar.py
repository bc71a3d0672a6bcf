"""The grammar of an answer, composed per request as Lark text for llguidance. Pure.

Syntax: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md. A marker that is one
vocabulary entry is a token reference, `<[151657]>`; as a literal it would never be accepted.
Whitespace is fixed in the style the models were trained on, so that everything outside values is
forced and need not be decoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from prompts.payloads import PLACEHOLDER, Json
from server.payloads.choice import arguments_rule
from server.payloads.rules import JsonObject, Rules, SplitSpecial, json_value, pattern
from server.payloads.texts import ended_text
from server.surface import IDS, Surface, flexible

MAX_CALLS = 32  # in one turn; a small model may never find an end


@dataclass(frozen=True)
class Offer:
    """A tool that may be called: its name and the schema for the back end.

    `input_lark`: its one argument is the text `input`, and this the grammar of it with its escapes.
    """

    name: str
    schema: JsonObject
    input_lark: str | None = None


def json_grammar(schema: JsonObject) -> str:
    """An answer that is JSON of a schema and nothing else."""
    return _lark(["start: " + json_value(schema)])


@dataclass(frozen=True)
class Words:
    """An answer in words, between the two texts of `around`, or JSON of a `schema` there."""

    around: tuple[str, str]
    schema: JsonObject | None = None

    def rule(self, rules: Rules) -> str:
        opening, closing = (rules.text(text, literal=False) for text in self.around)
        if self.schema:
            inner = f"{rules.new(json_value(self.schema))} {closing}"
        elif closing:
            inner = ended_text(rules, ["(?s:.+)"], self.around[1], literal=False)
        else:
            inner = pattern("(?s:.+)")
        return rules.add("answer", f"{opening} {inner}")


def words_grammar(words: Words, split_special: SplitSpecial) -> str:
    """An answer in words and nothing else."""
    rules = Rules(split_special)
    rules.add("start", words.rule(rules))
    return _lark(rules.lines)


def lark_grammar(body: str) -> str:
    """A grammar that is Lark text already: one of a client."""
    return f"%llguidance {{}} {body}\n"  # in one line: messages count lines


def calls_grammar(
    ways: Sequence[Surface],
    offers: Sequence[Offer],
    *,
    parallel: bool,
    ends: Sequence[str],
    split_special: SplitSpecial,
    or_words: Words | None = None,
) -> str:
    """One or more calls of the offered tools, written in one of the `ways`.

    `ends` are texts that may close the turn. `or_words`: or else an answer in words.
    """
    rules = Rules(split_special)
    turns = [
        _turn(rules, f"way_{number}", way, offers, parallel=parallel)
        for number, way in enumerate(ways)
    ]
    if or_words is not None:
        turns.append(or_words.rule(rules))
    closing = " | ".join(rules.text(end, literal=False) for end in ends)
    # After the only call the answer is over, whatever the model would write there.
    open_ended = parallel or or_words is not None
    trail = f" ({closing})?" if closing and open_ended else ""
    rules.add("start", f"({' | '.join(turns)}){trail}")
    return _lark(rules.lines)


def _turn(rules: Rules, name: str, way: Surface, offers: Sequence[Offer], *, parallel: bool) -> str:
    alternatives = [
        rules.add(f"{name}_{index}", _call(rules, way, offer)) for index, offer in enumerate(offers)
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


def _opening(rules: Rules, way: Surface) -> str:
    if way.native or not way.open:
        return rules.text(way.open, literal=way.literal)
    return (
        pattern(flexible(way.open))
        if way.literal or "```" in way.open
        else rules.text(way.open, literal=False)
    )


def _call(rules: Rules, way: Surface, offer: Offer) -> str:
    """One call of one tool. Up to the name a loose surface allows for white space."""
    parts = PLACEHOLDER.split(way.call)
    body = []
    if not way.native and parts[1] == "name" and parts[0].lstrip().startswith("{"):
        # A terminal of its own: what comes before the name may be spelled in several ways.
        body.append(pattern(flexible(parts[0]) + re.escape(offer.name)))
        parts = ["", "", *parts[2:]]
    for position, part in enumerate(parts):
        if position % 2 == 0:
            body.append(rules.text(part, literal=way.literal))
        elif part == "args":
            body.append(_arguments(rules, way, offer))
        elif part:
            body.append(_placeholder(part, way.ids, offer.name))
    return " ".join(piece for piece in body if piece)


def _placeholder(kind: str, ids: str, name: str) -> str:
    if kind == "name":
        return json.dumps(name)
    if kind == "id" and ids == "kimi":
        return f"{json.dumps(f'functions.{name}:')} {pattern(IDS['index'])}"
    return pattern(IDS[ids] if kind == "id" else IDS["index"])


def _arguments(rules: Rules, way: Surface, offer: Offer) -> str:
    if offer.input_lark is not None and isinstance(way.args, Json):
        return rules.new(input_grammar(offer.input_lark))
    return arguments_rule(rules, way.args, offer.schema, literal=way.literal)


def input_grammar(lark: str) -> str:
    """The object with the one argument `input`, in the style of all others."""
    begin, end = (json.dumps(text) for text in ('{"input": "', '"}'))
    return f"{begin} %lark {{\n{lark}\n}} {end}"


def _lark(lines: Sequence[str]) -> str:
    return "\n".join(["%llguidance {}", *lines]) + "\n"
