"""Thinking first: told apart, bounded, and never taken for a call."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.formats import HERMES, ToolFormat, row_named
from prompts.own_formats import CALL_LIST
from server.constraint import Constraint, ConstraintCompiler
from server.engine.vocabulary import Vocabulary
from server.events import Event, Reasoning
from server.guide import Guide
from server.plan import Callee, Mode, Plan
from server.thinking import Start, Thinking, ThinkingParser, Thoughts, ThoughtsMaker
from tests.driving import NotWritten, Part, Writer, fold, merged_vocabulary
from tests.replies import answer_to, calls_of, content_of, reason_of
from tests.serving import ask, call, tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Callee("get_weather", CITY, "tools[0]")
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Porto"}}\n</tool_call>'
MODES: tuple[Mode, ...] = ("required", "auto")
HARMONY = row_named("harmony")


@cache
def vocabulary(*, tags: bool) -> Vocabulary:
    """The merged vocabulary, with the markers of thinking as tokens if `tags`."""
    base = merged_vocabulary()
    if not tags:
        return base
    texts = ["<think>", "</think>", "<|channel|>", "<|message|>", "<|end|>", "<|start|>"]
    texts += ["<|constrain|>", "<|call|>"]
    new = frozenset(range(len(base), len(base) + len(texts)))
    pieces = (*base.pieces, *(text.encode() for text in texts))
    return replace(base, pieces=pieces, special=base.special | new)


@cache
def constraint(row: ToolFormat, mode: Mode, *, tags: bool) -> Constraint:
    compiler = ConstraintCompiler(vocabulary(tags=tags), can_retry=True)
    return compiler.compile_now(Plan(row, mode, (WEATHER,)))


def thoughts(row: ToolFormat, start: Start, *, tags: bool, budget: int = 1000) -> Thoughts:
    made = ThoughtsMaker(vocabulary(tags=tags)).make(row.reasoning, start, budget)
    assert made
    return made


@dataclass(frozen=True)
class Held:
    """A constraint whose sequences think first."""

    answer: Constraint
    thoughts: Thoughts

    def guide(self) -> Guide:
        return Thinking(self.answer.guide(), self.thoughts)  # type: ignore[return-value]

    def parser(self) -> ThinkingParser:
        return ThinkingParser(
            self.answer.parser(new_id=lambda: "abcdefghi", stops=()), self.thoughts
        )


def held(row: ToolFormat, mode: Mode, start: Start, *, tags: bool, budget: int = 1000) -> Held:
    return Held(constraint(row, mode, tags=tags), thoughts(row, start, tags=tags, budget=budget))


def parts_of(text: str, *, tags: bool) -> list[Part]:
    parts = vocabulary(tags=tags).split_special(text)
    return [part if isinstance(part, int) else part.encode() for part in parts]


def written(made: Held, parts: list[Part], seed: int, *, tags: bool) -> bytes:
    return Writer(made, vocabulary(tags=tags), Random(seed)).write(parts)  # type: ignore[arg-type]


def events_of(parser: ThinkingParser, data: bytes, size: int) -> list[Event]:
    events: list[Event] = []
    for at in range(0, len(data), size):
        events += parser.feed(data[at : at + size])
    return [*events, *parser.end()]


def split(events: list[Event]) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Reasoning, text, calls."""
    rest = [event for event in events if not isinstance(event, Reasoning)]
    folded = fold(rest)
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    return reasoning, folded.text, folded.calls


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gap", ["", "\n", "\n\n"])
def test_thinking_comes_before_a_call(mode: Mode, tags: bool, gap: str) -> None:
    made = held(HERMES, mode, "inside", tags=tags)
    thought = 'I need </thin the {"name": "get_weather" é 🐲'
    parts = parts_of(f"{thought}\n</think>{gap}{CALL}", tags=tags)
    for seed in range(4):
        data = written(made, parts, seed, tags=tags)
        for size in (1, 3, 1000):
            reasoning, text, calls = split(events_of(made.parser(), data, size))
            assert (reasoning, text) == (thought, "")
            assert calls == (("get_weather", '{"city": "Porto"}'),)


@pytest.mark.parametrize("tags", [True, False])
def test_text_comes_after_thinking(tags: bool) -> None:
    made = held(HERMES, "auto", "inside", tags=tags)
    data = written(made, parts_of("Hm.\n\nWell.\n</think>\n\nHello!\n", tags=tags), 1, tags=tags)
    assert split(events_of(made.parser(), data, 2)) == ("Hm.\n\nWell.", "Hello!\n", ())


THINKING_LIST = replace(CALL_LIST, reasoning=HERMES.reasoning)
JSON_CALL = '{"name": "get_weather", "arguments": {"city": "Porto"}}'
LIST_CALL = '[get_weather({"city": "Porto"})]'


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(
        [(HERMES, JSON_CALL), (THINKING_LIST, LIST_CALL), (THINKING_LIST, LIST_CALL[1:])]
    ),
    st.text(" \n\t\r", max_size=24),
    st.booleans(),
)
def test_white_space_after_thinking_hides_no_call_from_the_grammar(
    way: tuple[ToolFormat, str], gap: str, wrong: bool
) -> None:
    row, said = way
    made = held(row, "auto", "inside", tags=False)
    words, guide = vocabulary(tags=False), made.guide()
    written = b"hm</think>"
    for token in words.encode_text(written):
        guide.accept(token)
    text = gap + (said.replace('"city"', '"town"') if wrong else said)
    for byte in text.encode():
        [token] = words.encode_text(bytes([byte]))
        if not guide.allows(token):
            break
        guide.accept(token)
        written += bytes([byte])
    for size in (1, 1000):
        calls = split(events_of(made.parser(), written, size))[2]
        assert not (calls and guide.free)
        if not wrong:
            assert calls == (("get_weather", '{"city": "Porto"}'),)


@pytest.mark.parametrize("mode", MODES)
def test_where_thinking_is_possible_it_may_be_left_out(mode: Mode) -> None:
    made = held(HERMES, mode, "possible", tags=True)
    for before, thought in [
        ("", ""),
        ("<think>\nHm.</think>\n\n", "Hm."),
        ("\n<think></think>", ""),
    ]:
        data = written(made, parts_of(before + CALL, tags=True), 2, tags=True)
        reasoning, text, calls = split(events_of(made.parser(), data, 1))
        assert (reasoning, text, len(calls)) == (thought, "", 1)


def test_thinking_is_not_opened_again_nor_later() -> None:
    for text in ("<think>a</think>b<think>", "b<think>"):
        made = held(HERMES, "auto", "possible", tags=True)
        with pytest.raises(NotWritten):
            written(made, parts_of(text, tags=True), 1, tags=True)


def test_neither_an_end_nor_a_call_can_be_written_within() -> None:
    made = held(HERMES, "auto", "inside", tags=True)
    guide = made.guide()
    words = vocabulary(tags=True)
    for text in ("<tool_call>", "<|im_end|>", "<|endoftext|>", "<think>"):
        assert not guide.allows(words.special_ids[text])
        assert not guide.mask()[words.special_ids[text]]


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("budget", [0, 1, 7])
def test_thinking_is_closed_when_the_budget_is_used_up(budget: int, tags: bool) -> None:
    guide = held(HERMES, "required", "inside", tags=tags, budget=budget).guide()
    words = vocabulary(tags=tags)
    for _ in range(budget):
        assert guide.forced() == []
        guide.accept(ord("x"))
    run = guide.forced()
    assert words.decode(run) == b"</think>"
    guide.accept(words.special_ids["<tool_call>"])
    assert words.decode(guide.forced()).startswith(b'\n{"name": "get_weather"')


def test_a_budget_of_nothing_leaves_no_possible_thinking() -> None:
    maker = ThoughtsMaker(vocabulary(tags=True))
    assert maker.make(HERMES.reasoning, "possible", 0) is None
    plain = ThoughtsMaker(vocabulary(tags=False))
    assert plain.make(HERMES.reasoning, "possible", 10) is None


def test_tokens_that_say_more_than_the_end_are_not_chosen() -> None:
    base = vocabulary(tags=False)
    pieces = (*base.pieces, b">\n\n", b">Hi", b"x</think>y")
    words = replace(base, pieces=pieces)
    made = ThoughtsMaker(words).make(HERMES.reasoning, "inside", 100)
    assert made
    space, more, whole = range(len(base), len(base) + 3)
    guide = Thinking(constraint(HERMES, "required", tags=False).guide(), made)
    assert not guide.allows(whole)
    for byte in b"</think":
        assert guide.allows(more)
        guide.accept(byte)
    assert guide.allows(space)
    assert not guide.allows(more)
    assert guide.mask()[space]
    assert not guide.mask()[more]


def test_channels_are_opened_where_the_answer_begins_in_the_same_way() -> None:
    made = held(HARMONY, "required", "possible", tags=True)
    data = written(
        made,
        parts_of(
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
            "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
            '{"city": "Porto"}',
            tags=True,
        ),
        1,
        tags=True,
    )
    reasoning, text, calls = split(events_of(made.parser(), data, 3))
    assert (reasoning, text) == ("Hm.", "")
    assert calls == (("get_weather", '{"city": "Porto"}'),)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\x7f"), max_size=20)


@settings(deadline=None)
@given(TEXTS, st.integers(1, 7), st.booleans(), st.randoms(use_true_random=False))
def test_any_thinking_comes_back(text: str, size: int, tags: bool, random: Random) -> None:
    made = held(HERMES, "auto", "inside", tags=tags)
    parts: list[Part] = [text.encode(), *parts_of(f"</think>{CALL}", tags=tags)]
    data = Writer(made, vocabulary(tags=tags), random).write(parts)  # type: ignore[arg-type]
    reasoning, _, calls = split(events_of(made.parser(), data, size))
    assert reasoning.strip() == text.strip()
    assert len(calls) == 1


def test_a_cut_at_any_byte_shows_all_that_is_certain() -> None:
    data = f"Hm é.\n</think>\n\n{CALL}".encode()
    for length in range(len(data) + 1):
        parser = held(HERMES, "auto", "inside", tags=True).parser()
        events = events_of(parser, data[:length], 4)
        reasoning, text, _ = split(events)
        assert "Hm é.".startswith(reasoning)
        assert CALL.startswith(text)  # it may still have been text
        assert parser.finish_reason("length") == "length"


# In an answer


SAYS = {"weather": "<think>\nHm, Porto.\n</think>\n\n" + call("get_weather", '{"city": "Porto"}')}
TOOLS = [tool("get_weather")]


def message(reply: Any) -> dict[str, Any]:
    made: dict[str, Any] = reply["choices"][0]["message"]
    return made


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_reasoning_is_beside_the_call(choice: str, stream: bool) -> None:
    body = ask("weather", tools=TOOLS, tool_choice=choice, reasoning_effort="low")
    reply = await answer_to(SAYS, body, stream=stream)
    assert message(reply)["reasoning_content"] == "Hm, Porto."
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
    assert content_of(reply) is None
    assert reason_of(reply) == "tool_calls"


async def test_reasoning_is_counted_bounded_and_can_be_cut() -> None:
    body = ask("weather", tools=TOOLS, tool_choice="required", reasoning_effort="high")
    reply = await answer_to(SAYS, body, stream=False)
    details = reply["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] == len("Hm, Porto.\n</think>")
    short = await answer_to(SAYS, {**body, "reasoning_budget": 2}, stream=False)
    assert message(short)["reasoning_content"] == "Hm"
    assert [name for name, _ in calls_of(short)] == ["get_weather"]
    cut = await answer_to(SAYS, {**body, "max_tokens": 3}, stream=False)
    assert (message(cut)["reasoning_content"], reason_of(cut)) == ("Hm,", "length")
    assert json.dumps(cut)


@pytest.mark.parametrize("effort", ["none", None])
async def test_without_thinking_there_is_no_reasoning(effort: str | None) -> None:
    says = {"weather": call("get_weather", '{"city": "Porto"}')}
    body = ask("weather", tools=TOOLS, reasoning_effort=effort)
    reply = await answer_to(says, body, stream=False)
    assert "reasoning_content" not in message(reply)
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
