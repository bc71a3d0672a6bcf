"""What is rendered is accepted and parsed back, in every family's way and in each loose one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from itertools import repeat
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.conversation import PastCall
from prompts.formats import HERMES, LLAMA3_JSON, ROWS, Loose, ToolFormat, render_calls
from server.constraint import Constraint, ConstraintCompiler
from server.engine.vocabulary import Vocabulary
from server.grammar import Offer, calls_grammar, json_grammar
from server.plan import Callee, Mode, Plan
from server.surface import surfaces
from tests.driving import NotWritten, Part, Writer, fold, merged_vocabulary, parse

MARKER = re.compile(r"<[^<>\s«»]+>|\[/?[A-Z_]+\]|｜DSML｜")
# Stand-ins for what begins a marker, in texts that are none.
MASKS = {"<": "\ue100", "[": "\ue101"}
PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 14}},
    "required": ["city"],
}
TOOLS = (
    Callee("get_weather", PLACE, "tools[0]"),
    Callee("get_weather_2", {"type": "object", "properties": {}}, "tools[1]"),
    Callee("a.b-C_9", {"type": "object", "properties": {"x": {}}}, "tools[2]"),
)
MODES: tuple[Mode, ...] = ("required", "auto")
IDS = {"alnum9": "abcdefghi", "any": "call-7", "index": "", "none": ""}


def row_ids() -> list[str]:
    return [row.name for row in ROWS]


@cache
def vocabulary_for(row: ToolFormat, *, special: bool) -> Vocabulary:
    """The merged vocabulary, with the row's markers as tokens of their own if `special`."""
    base = merged_vocabulary()
    if not special:
        return replace(base, special=base.control, control=base.control)
    texts = [*row.section, row.sep, row.call, row.written, *row.text, *row.end]
    texts.append(getattr(row.args, "arg", "") + getattr(row.args, "quote", ""))
    texts += [loose.open + loose.call + loose.close for loose in row.loose]
    markers = dict.fromkeys(MARKER.findall("".join(texts)))
    new = [text.encode() for text in markers if text not in base.special_ids]
    ids = frozenset(range(len(base), len(base) + len(new)))
    return replace(base, pieces=(*base.pieces, *new), special=base.special | ids)


@cache
def constraint_for(
    row: ToolFormat, mode: Mode, *, special: bool, parallel: bool = True
) -> Constraint:
    compiler = ConstraintCompiler(vocabulary_for(row, special=special), can_retry=True)
    return compiler.compile_now(Plan(row, mode, TOOLS, parallel=parallel))


Calls = list[tuple[str, str]]


def parts_of(row: ToolFormat, vocabulary: Vocabulary, calls: Calls) -> list[Part]:
    """The calls as the row has them: markers as tokens, but what looks like one in arguments."""
    past = [
        PastCall(
            f"functions.{name}:{index}" if row.ids == "kimi" else IDS[row.ids],
            name,
            masked(json.loads(arguments)),
        )
        for index, (name, arguments) in enumerate(calls)
    ]
    row = replace(row, call=row.written or row.call)
    parts: list[Part] = []
    for part in vocabulary.split_special(render_calls(row, past)):
        if isinstance(part, str):
            for char, mask in MASKS.items():
                part = part.replace(mask, char)
        parts.append(part if isinstance(part, int) else part.encode())
    return parts


def masked(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(MASKS.get(char, char) for char in value)
    if isinstance(value, list):
        return [masked(item) for item in value]
    if isinstance(value, dict):
        return {key: masked(item) for key, item in value.items()}
    return value


def spelled(vocabulary: Vocabulary, parts: list[Part]) -> list[Part]:
    """The same text without special tokens."""
    return [b"".join(vocabulary.pieces[part] if isinstance(part, int) else part for part in parts)]


def check_written(
    constraint: Constraint, vocabulary: Vocabulary, parts: list[Part], calls: Calls, seeds: int = 4
) -> None:
    """The parts can be written, in several tokenisations, and are read as these calls."""
    for seed in range(seeds):
        data = Writer(constraint, vocabulary, Random(seed)).write(parts)
        folded = fold(parse(constraint, data, repeat(1)))
        assert folded.calls == tuple(calls)
        assert folded.done == len(calls)
        assert folded.text == ""


ONE = [("get_weather", '{"city": "Zürich \\"\\n</tool_call>", "days": 3}')]
SEVERAL = [*ONE, ("get_weather_2", "{}"), ("a.b-C_9", '{"x": [{"y": null}, "}}"]}')]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", ROWS, ids=row_ids())
def test_what_is_rendered_is_accepted_and_read_back(
    row: ToolFormat, mode: Mode, special: bool
) -> None:
    constraint = constraint_for(row, mode, special=special)
    vocabulary = vocabulary_for(row, special=special)
    for name, arguments in SEVERAL:
        calls = [(name, arguments)]
        check_written(constraint, vocabulary, parts_of(row, vocabulary, calls), calls)
    if row.max_calls != 1:
        check_written(constraint, vocabulary, parts_of(row, vocabulary, SEVERAL), SEVERAL)


LOOSE = [(row, loose) for row in ROWS for loose in row.loose]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize(
    ("row", "loose"), LOOSE, ids=[f"{row.name}-{loose.open!r}" for row, loose in LOOSE]
)
def test_loose_ways_are_calls_where_the_model_may_choose(
    row: ToolFormat, loose: Loose, special: bool
) -> None:
    constraint = constraint_for(row, "auto", special=special)
    vocabulary = vocabulary_for(row, special=special)
    args = loose.args or row.args
    section = (loose.open, loose.close)
    way = replace(row, section=section, call=loose.call, written="", sep=loose.sep, args=args)
    for calls in [ONE, SEVERAL] if row.max_calls != 1 else [ONE]:
        parts = parts_of(way, vocabulary, calls)
        if loose.literal:
            parts = spelled(vocabulary, parts)
            if not special and len(calls) > 1:
                continue  # the native way has the same marker then, and another way to go on
        check_written(constraint, vocabulary, parts, calls)


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{\n  "name": "get_weather", "arguments": {"city": "a"}}\n```',
        '```json\n\n{"name":  "get_weather", "arguments": {"city": "a"}}\n```',
        '```\n{"name": "get_weather", "arguments": {"city": "a"}}\n```',
        '{\n "name" : "get_weather", "arguments": {"city": "a"}}',
        '  {"name": "get_weather", "arguments": {"city": "a"}}',
    ],
)
def test_white_space_may_vary_up_to_the_name(text: str) -> None:
    constraint = constraint_for(HERMES, "auto", special=True)
    vocabulary = vocabulary_for(HERMES, special=True)
    check_written(constraint, vocabulary, [text.encode()], [("get_weather", '{"city": "a"}')])


def test_fences_may_follow_each_other() -> None:
    fence = '```json\n{"name": "get_weather", "arguments": {"city": "a"}}\n```'
    constraint = constraint_for(HERMES, "auto", special=True)
    vocabulary = vocabulary_for(HERMES, special=True)
    other = fence.replace('"a"', '"b"')
    calls = [("get_weather", '{"city": "a"}'), ("get_weather", '{"city": "b"}')]
    for joint in ("\n", "\n\n"):
        check_written(constraint, vocabulary, [f"{fence}{joint}{other}".encode()], calls)


@pytest.mark.parametrize("row", ROWS, ids=row_ids())
def test_only_one_call_where_only_one_is_wanted(row: ToolFormat) -> None:
    constraint = constraint_for(row, "required", special=True, parallel=False)
    vocabulary = vocabulary_for(row, special=True)
    check_written(constraint, vocabulary, parts_of(row, vocabulary, ONE), ONE)
    parts = parts_of(row, vocabulary, SEVERAL)
    writer = Writer(constraint, vocabulary, Random(0))
    with pytest.raises(NotWritten):
        writer.write(parts)


@pytest.mark.parametrize(
    "call",
    [
        '{"name": "unknown", "arguments": {}}',
        '{"name": "get_weather", "arguments": {}}',
        '{"name": "get_weather", "arguments": {"city": 1}}',
        '{"name": "get_weather", "arguments": {"city": "a", "days": 15}}',
        '{"name": "get_weather", "arguments": {"city": "a", "more": 1}}',
        '{"name": "get_weather_2", "arguments": {"x": 1}}',
        '{"name": "get_weather", "arguments": {"city": "a"}, "more": 1}',
        '{"name": "get_weather", "arguments": {"city":"a"}}',
        '{"name":"get_weather", "arguments": {"city": "a"}}',
    ],
)
def test_nothing_else_is_accepted_as_a_call(call: str) -> None:
    vocabulary = vocabulary_for(HERMES, special=True)
    opening, closing = (vocabulary.special_ids[text] for text in ("<tool_call>", "</tool_call>"))
    for mode in MODES:
        constraint = constraint_for(HERMES, mode, special=True)
        writer = Writer(constraint, vocabulary, Random(0))
        with pytest.raises(NotWritten):
            writer.write([opening, f"\n{call}\n".encode(), closing])


TEXTS = [
    "Hello, wörld 🐲!",
    "I would use <tool_call> here.",  # spelled out: the token alone opens a call
    'Say "{" and {"name": "other"} or `{"name": 3}`.',
    'The call {"name": "get_weather", "arguments": {}} stands within a line.',
    "```python\nprint('{}')\n```",
    '```json\n{"names": "get_weather"}\n```',
    "functools[ and [TOOL_CALLS] are words",
    "> quoted\n>> twice",
]


@pytest.mark.parametrize("row", [HERMES, LLAMA3_JSON, ROWS[-1]], ids=lambda row: row.name)
@pytest.mark.parametrize("text", TEXTS)
def test_text_that_speaks_of_calls_is_text(row: ToolFormat, text: str) -> None:
    constraint = constraint_for(row, "auto", special=True)
    vocabulary = vocabulary_for(row, special=True)
    for seed in range(5):
        data = Writer(constraint, vocabulary, Random(seed)).write([text.encode()])
        folded = fold(parse(constraint, data, repeat(1)))
        assert (folded.text, folded.calls) == (text, ())


FRAMED = [row for row in ROWS if row.text[0]]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("mode", ["auto", "none"])
@pytest.mark.parametrize("row", FRAMED, ids=lambda row: row.name)
def test_an_answer_in_words_has_the_frame_of_its_family(
    row: ToolFormat, mode: Mode, special: bool
) -> None:
    constraint = constraint_for(row, mode, special=special)
    vocabulary = vocabulary_for(row, special=special)
    opening, closing = map(vocabulary.split_special, row.text)
    texts = [*opening, "Hello, wörld!\n{}\nBye.", *closing]
    parts = [part if isinstance(part, int) else part.encode() for part in texts]
    data = Writer(constraint, vocabulary, Random(1)).write(parts)
    folded = fold(parse(constraint, data, repeat(2)))
    assert (folded.text, folded.calls) == ("Hello, wörld!\n{}\nBye.", ())


@pytest.mark.parametrize("row", [row for row in ROWS if row not in FRAMED], ids=lambda r: r.name)
def test_text_before_a_call_is_kept(row: ToolFormat) -> None:
    constraint = constraint_for(row, "auto", special=True)
    vocabulary = vocabulary_for(row, special=True)
    parts = [b"Let me look.\n\n", *parts_of(row, vocabulary, ONE)]
    data = Writer(constraint, vocabulary, Random(1)).write(parts)
    folded = fold(parse(constraint, data, repeat(3)))
    assert (folded.text, folded.calls) == ("Let me look.", tuple(ONE))


# DEL is written as an escape: one of the limits of canonical form.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=12)
arguments = st.one_of(
    texts.map(lambda text: {"city": text}),
    st.tuples(texts, st.integers(-(10**6), 14)).map(lambda two: {"city": two[0], "days": two[1]}),
)


@settings(deadline=None)
@given(st.sampled_from(ROWS), st.lists(arguments, min_size=1, max_size=3), st.booleans(), st.data())
def test_any_arguments_come_back(
    row: ToolFormat, values: list[dict[str, object]], special: bool, data: st.DataObject
) -> None:
    values = values[:1] if row.max_calls == 1 else values
    calls = [("get_weather", json.dumps(value, ensure_ascii=False)) for value in values]
    if len(set(calls)) < len(calls):
        return  # the turn ends where a call repeats another
    constraint = constraint_for(row, "required", special=special)
    vocabulary = vocabulary_for(row, special=special)
    random = data.draw(st.randoms(use_true_random=False))
    written = Writer(constraint, vocabulary, random).write(parts_of(row, vocabulary, calls))
    sizes = iter(lambda: random.randint(1, 9), 0)
    assert fold(parse(constraint, written, sizes)).calls == tuple(calls)


def test_special_tokens_are_references_and_others_are_texts() -> None:
    vocabulary = vocabulary_for(HERMES, special=True)
    offers = [Offer("x", {"type": "object"})]

    def grammar(split: bool) -> str:
        return calls_grammar(
            surfaces(HERMES)[:1],
            offers,
            parallel=False,
            ends=(),
            split_special=vocabulary.split_special if split else lambda text: [text],
        )

    assert f"<[{vocabulary.special_ids['<tool_call>']}]>" in grammar(split=True)
    assert '"<tool_call>' in grammar(split=False)


def test_a_json_answer_is_the_schema_in_our_style() -> None:
    text = json_grammar({"type": "array"})
    assert text.startswith("%llguidance {}\nstart: %json ")
    guidance = json.loads(text.split("%json ")[1])["x-guidance"]
    assert (guidance["item_separator"], guidance["key_separator"]) == (", ", ": ")
    assert guidance["whitespace_flexible"] is False
