"""The guide as the engine uses it, with models that want all sorts of things."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.formats import GENERIC, HERMES, ToolFormat
from prompts.own_formats import CALL_LIST
from server.constraint import Constraint, ConstraintCompiler
from server.engine.sampler import Allowed
from server.engine.vocabulary import Vocabulary
from server.errors import ConstraintFailed
from server.guide import Guide
from server.guided import MAX_TRIES
from server.plan import Callee, Mode, Plan
from tests.driving import (
    Driven,
    Writer,
    any_token,
    assert_calls_hold,
    assert_satisfies,
    drive,
    fold,
    merged_vocabulary,
)
from tests.fakes import TOOL_CALL, byte_vocabulary
from tests.random_schemas import SchemaMaker

JsonObject = dict[str, Any]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Callee("get_weather", CITY, "tools[0]")


@cache
def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    return byte_vocabulary(), merged_vocabulary()


@cache
def compilers() -> tuple[ConstraintCompiler, ConstraintCompiler]:
    first, second = vocabularies()
    return ConstraintCompiler(first, can_retry=True), ConstraintCompiler(second, can_retry=True)


def constraint_of(
    *tools: Callee,
    row: ToolFormat = HERMES,
    mode: Mode = "required",
    parallel: bool = False,
    answer: JsonObject | None = None,
    merged: bool = True,
) -> Constraint:
    return compilers()[merged].compile_now(Plan(row, mode, tools, parallel, answer))


def parameter(schema: JsonObject) -> Callee:
    """A tool with one required parameter `v`."""
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    return Callee("f", whole, "tools[0]")


def drive_unless_given_up(
    constraint: Constraint, vocabulary: Vocabulary, choose: Callable[[Allowed], int], limit: int
) -> Driven | None:
    """None if the search found nothing; how rarely that is so is counted below."""
    try:
        return drive(constraint, vocabulary, choose, max_tokens=limit)
    except ConstraintFailed as exc:
        if "no value was found" not in exc.message:
            raise
        return None


# Any schema, any choice of tokens

SEEDS = st.integers(0, 2**32)


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.booleans(), st.booleans(), st.sampled_from([15, 80]))
def test_whatever_is_chosen_a_finished_call_holds(
    seed: int, merged: bool, parallel: bool, hurry_after: int
) -> None:
    random = Random(seed)
    tools = tuple(
        Callee(f"tool{i}", SchemaMaker(random).parameters(), "")
        for i in range(random.randint(1, 3))
    )
    vocabulary = vocabularies()[merged]
    constraint = constraint_of(*tools, parallel=parallel, merged=merged)
    choose = any_token(random, vocabulary, hurry_after)
    driven = drive_unless_given_up(constraint, vocabulary, choose, 700)
    if driven is not None:
        assert_calls_hold(driven, tools)
        assert driven.events or driven.end == "length"


def test_the_search_hardly_ever_gives_up() -> None:
    given_up = finished = 0
    for seed in range(200):
        random = Random(seed)
        tool = Callee("f", SchemaMaker(random).parameters(), "")
        constraint = constraint_of(tool)
        choose = any_token(random, vocabularies()[True], 30)
        driven = drive_unless_given_up(constraint, vocabularies()[True], choose, 900)
        if driven is None:
            given_up += 1
        else:
            assert_calls_hold(driven, [tool])
            finished += driven.end == "stop"
    assert finished >= 190
    assert given_up <= 2


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.sampled_from([HERMES, GENERIC, CALL_LIST]))
def test_where_text_is_allowed_calls_hold_too(seed: int, row: ToolFormat) -> None:
    random = Random(seed)
    tool = Callee("f", SchemaMaker(random).parameters(), "")
    constraint = constraint_of(tool, row=row, mode="auto", parallel=True)
    vocabulary = vocabularies()[True]
    wanted = ["```json\n", '{"name": "', "f", "[", "(", "Hi.\n", "\n"]
    starts = [
        token for token, piece in enumerate(vocabulary.pieces) if piece.decode("latin1") in wanted
    ]
    inner = any_token(random, vocabulary, 60)

    def choose(allowed: Allowed) -> int:
        if random.random() < 0.2:
            usable = [token for token in [*starts, TOOL_CALL] if allowed[token]]
            if usable:
                return random.choice(usable)
        return inner(allowed)

    driven = drive_unless_given_up(constraint, vocabulary, choose, 400)
    if driven is not None:
        assert_calls_hold(driven, [tool])


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.booleans())
def test_an_answer_in_json_satisfies_its_schema(seed: int, with_tools: bool) -> None:
    random = Random(seed)
    schema = SchemaMaker(random).parameters()
    tools = (WEATHER,) if with_tools else ()
    constraint = constraint_of(*tools, mode="auto" if with_tools else "none", answer=schema)
    vocabulary = vocabularies()[True]
    choose = any_token(random, vocabulary, 30)
    driven = drive_unless_given_up(constraint, vocabulary, choose, 700)
    if driven is None:
        return
    folded = fold(driven.events)
    if folded.calls:
        assert_calls_hold(driven, tools)
        assert folded.text == ""
    elif driven.end == "stop":
        assert_satisfies(folded.text, schema)


# Taking back


def greedy(vocabulary: Vocabulary, order: str, closing: str = '"]},: ') -> Callable[[Allowed], int]:
    """A model at temperature 0: it likes the letters in this order, then what closes."""
    liked = [*order.encode(), *closing.encode()]

    def choose(allowed: Allowed) -> int:
        return next((byte for byte in liked if allowed[byte]), int(np.flatnonzero(allowed)[0]))

    return choose


PAIR = {"type": "array", "minItems": 2, "maxItems": 2}


@pytest.mark.parametrize(
    ("schema", "liked"),
    [
        ({**PAIR, "items": {"enum": [7, 8]}, "uniqueItems": True}, "7"),
        ({**PAIR, "items": {"enum": [1, 2]}, "contains": {"const": 2}}, "1"),
        ({"type": "array", "items": {"enum": ["p", "q"]}, "minItems": 2, "uniqueItems": True}, "p"),
        ({"type": "string", "pattern": "^(?!aa)[ab]{2}$"}, "a"),
        ({"type": "string", "pattern": r"^(a|b)c\1$"}, '"abc'),
        ({"type": "string", "maxLength": 3, "not": {"pattern": "^a*$"}}, 'a"'),
        ({"oneOf": [{"type": "integer", "maximum": 9}, {"enum": [1, 10]}]}, "1"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, "}50"),
        ({**PAIR, "items": {"type": "number", "exclusiveMinimum": 1, "maximum": 1.5}}, "],50"),
        ({"type": "object", "minProperties": 2, "additionalProperties": {"enum": [1]}}, '"1'),
    ],
)
def test_the_search_finds_what_satisfies(schema: JsonObject, liked: str) -> None:
    vocabulary = vocabularies()[False]
    tool = parameter(schema)
    constraint = constraint_of(tool, merged=False)
    driven = drive(constraint, vocabulary, greedy(vocabulary, liked), max_tokens=300)
    assert driven.end == "stop"
    assert driven.taken_back > 0
    assert fold(driven.events).done == 1
    assert_calls_hold(driven, [tool])


def test_the_search_goes_back_to_the_fault_not_to_the_end() -> None:
    unique = {"type": "array", "items": {"enum": [7, 8]}, "minItems": 2, "uniqueItems": True}
    schema = {
        "type": "object",
        "properties": {"xs": unique, "note": {"type": "string", "minLength": 60, "maxLength": 60}},
        "required": ["xs", "note"],
    }
    vocabulary = vocabularies()[False]
    constraint = constraint_of(Callee("f", schema, ""), merged=False)
    driven = drive(constraint, vocabulary, greedy(vocabulary, '7n"'), max_tokens=400)
    assert_calls_hold(driven, [Callee("f", schema, "")])
    # All of the text that follows is written twice, not again for each step towards the fault.
    assert driven.taken_back < 200


def test_a_search_that_finds_nothing_ends() -> None:
    schema = {"type": "string", "pattern": "^[ab]{3}$", "not": {"pattern": "[ab]"}}
    constraint = constraint_of(parameter(schema), merged=False)
    vocabulary = vocabularies()[False]
    with pytest.raises(ConstraintFailed, match="'not' at /v"):
        drive(constraint, vocabulary, greedy(vocabulary, "ab"), max_tokens=10_000)


def test_nothing_is_told_that_may_be_taken_back() -> None:
    schema = {"type": "array", "items": {"enum": [7, 8]}, "uniqueItems": True}
    held = constraint_of(parameter(schema), merged=False).guide()
    told = constraint_of(
        parameter({"type": "array", "items": {"enum": [7, 8]}}), merged=False
    ).guide()
    for guide in (held, told):
        guide.forced()
        guide.accept(ord("7"))
    assert held.held() >= len("[7")
    assert told.held() == 0


def test_a_fault_that_comes_too_late_fails_the_answer() -> None:
    """The grammar never lets one through where nothing is held; if it did, nobody would see it."""
    first, _ = compilers()
    constraint = first.compile_now(Plan(HERMES, "required", (parameter({"enum": [1, 2]}),), False))
    rules = constraint._rules
    strict = first.compile_now(Plan(HERMES, "required", (parameter({"enum": [1]}),), False))
    checks = {"f": replace(strict._rules.checks["f"], needed=False)}
    guide = Guide(replace(rules, checks=checks))
    guide.forced()
    guide.accept(ord("2"))
    with pytest.raises(ConstraintFailed, match="breaks 'enum' at /v"):
        guide.forced()


def test_a_grammar_that_is_stuck_says_so_in_a_line() -> None:
    guide = constraint_of(WEATHER, merged=False).guide()
    guide.forced()
    with pytest.raises(ConstraintFailed, match=r"the grammar is stuck: [^\n]*\Z"):
        guide.accept(TOOL_CALL)


def test_a_repeated_call_ends_the_turn() -> None:
    schema = {"type": "object", "properties": {"v": {"enum": [1, 2]}}, "required": ["v"]}
    constraint = constraint_of(Callee("f", schema, ""), parallel=True, merged=False)
    vocabulary = vocabularies()[False]
    liked = greedy(vocabulary, "1\n<", closing='"]},: ')

    def choose(allowed: Allowed) -> int:
        return TOOL_CALL if allowed[TOOL_CALL] else liked(allowed)

    driven = drive(constraint, vocabulary, choose, max_tokens=900)
    assert driven.end == "stop"
    assert fold(driven.events).calls == (("f", '{"v": 1}'),)


# Numbers


@pytest.mark.parametrize(
    ("liked", "longest"), [("9", 24), ("0.9", 30), ("9e", 30), ("9.e9", 60), ("9e-", 40)]
)
def test_numbers_end(liked: str, longest: int) -> None:
    vocabulary = vocabularies()[False]
    constraint = constraint_of(parameter({"type": "number"}), merged=False)
    rest = iter(liked)

    def choose(allowed: Allowed) -> int:
        wanted = next((ord(char) for char in rest if allowed[ord(char)]), ord("9"))
        return wanted if allowed[wanted] else int(np.flatnonzero(allowed)[-1])

    driven = drive(constraint, vocabulary, choose, max_tokens=300)
    assert driven.end == "stop"
    ((_, arguments),) = fold(driven.events).calls
    assert len(arguments) <= longest + len('{"v": }')
    assert abs(json.loads(arguments)["v"]) < float("inf")


def test_digits_go_on_where_nothing_else_can() -> None:
    schema = {"type": "integer", "minimum": 10**15, "multipleOf": 9973}
    constraint = constraint_of(parameter(schema))
    choose = any_token(Random(3), vocabularies()[True], 9)
    driven = drive(constraint, vocabularies()[True], choose, max_tokens=300)
    assert_calls_hold(driven, [parameter(schema)])


# Entering a call from text


def vocabulary_with(*texts: str) -> Vocabulary:
    base = merged_vocabulary()
    return replace(base, pieces=(*base.pieces, *(text.encode() for text in texts)))


def test_a_token_that_opens_and_says_more_is_chosen_again() -> None:
    vocabulary = vocabulary_with('get_weather",\n  "')
    compiler = ConstraintCompiler(vocabulary, can_retry=True)
    constraint = compiler.compile_now(Plan(HERMES, "auto", (WEATHER,)))
    greedy_token = len(vocabulary) - 1
    guide = constraint.guide()
    for token in vocabulary.encode_text(b'```json\n{"name": "'):
        assert guide.allows(token)
        guide.accept(token)
    assert not guide.allows(greedy_token)
    mask = guide.mask()
    assert not mask[greedy_token]
    assert mask[ord("g")]
    guide.accept(ord("g"))
    run = guide.forced()
    assert vocabulary.decode(run).startswith(b'et_weather", "arguments": {"city')


@pytest.mark.parametrize("piece", ["}}", "}}\n", "\n<"])
def test_the_end_of_an_answer_is_forced_in_whatever_tokens_it_may_be_written(piece: str) -> None:
    vocabulary = vocabulary_with(piece)
    compiler = ConstraintCompiler(vocabulary, can_retry=True)
    call = b'<tool_call>\n{"name": "get_weather", "arguments": {"city": "Porto"}}\n</tool_call>'
    value, closing = call.index(b'"Porto'), call.index(b"}}")
    for parallel in (False, True):
        guide = compiler.compile_now(Plan(HERMES, "required", (WEATHER,), parallel)).guide()
        written = vocabulary.decode(guide.forced())
        for byte in call[len(written) : value] + b'"Porto"':
            guide.accept(byte)
        run = vocabulary.decode(guide.forced())
        # Another call may follow where there may be several: the model has to say.
        assert guide.finished() == (not parallel)
        assert call[closing:].startswith(run) if parallel else call[closing:] == run


def test_a_token_that_would_open_a_call_no_grammar_takes_is_refused() -> None:
    vocabulary = vocabulary_with('{"name": "get_weather", "x')
    compiler = ConstraintCompiler(vocabulary, can_retry=True)
    guide = compiler.compile_now(Plan(HERMES, "auto", (WEATHER,))).guide()
    whole = len(vocabulary) - 1
    assert not guide.allows(whole)
    assert not guide.mask()[whole]
    assert guide.mask()[ord("a")]
    guide.accept(ord("a"))
    # Within a line it is no opening.
    assert guide.allows(whole)


def test_the_marker_enters_a_call_and_other_special_tokens_are_no_text() -> None:
    vocabulary = vocabularies()[True]
    guide = constraint_of(WEATHER, mode="auto").guide()
    mask = guide.mask()
    assert {token for token in vocabulary.special if mask[token]} == {TOOL_CALL, *vocabulary.end}
    guide.accept(ord("a"))
    assert guide.allows(TOOL_CALL)
    guide.accept(TOOL_CALL)
    assert vocabulary.decode(guide.forced()).startswith(b'\n{"name": "get_weather"')
    assert not guide.allows(ord("x"))


def test_without_tools_nothing_opens() -> None:
    guide = constraint_of(WEATHER, mode="none").guide()
    assert not guide.mask()[TOOL_CALL]
    for byte in b'{"name": "get_weather", "arguments": ':
        assert guide.allows(byte)
        guide.accept(byte)
    assert guide.forced() == []
    assert not guide.finished()


def test_a_call_may_be_written_in_pieces_that_cut_across_everything() -> None:
    vocabulary = vocabularies()[True]
    text = b'Sure.\n```json\n{"name": "get_weather", "arguments": {"city": "Z\xc3\xbcrich"}}\n```'
    for seed in range(20):
        constraint = constraint_of(WEATHER, mode="auto", parallel=True)
        assert Writer(constraint, vocabulary, Random(seed)).write([text]) == text


def test_the_bounds_are_what_they_are_said_to_be() -> None:
    assert 20 <= MAX_TRIES <= 200
