"""Any schema, any choice of tokens: a finished call holds, in every notation."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.formats import row_named
from server.constraint import ConstraintCompiler
from server.engine.sampler import Allowed
from server.engine.vocabulary import Vocabulary
from server.errors import ConstraintFailed, InvalidRequest
from server.plan import Callee, Plan
from tests.driving import any_token, assert_calls_hold, drive, merged_vocabulary
from tests.random_schemas import SchemaMaker

ROWS = ["qwen_xml", "glm45", "deepseek_v4", "kimi_k3", "gemma4", "lfm2"]


@cache
def compilers() -> tuple[Vocabulary, ConstraintCompiler]:
    vocabulary = merged_vocabulary()
    return vocabulary, ConstraintCompiler(vocabulary, can_retry=True)


def outcome(row: str, seed: int, limit: int) -> str:
    """How a call of a random tool ended, with random tokens; it holds if it did."""
    random = Random(seed)
    tool = Callee("f", SchemaMaker(random).parameters(), "")
    vocabulary, compiler = compilers()
    try:
        constraint = compiler.compile_now(Plan(row_named(row), "required", (tool,), parallel=False))
    except InvalidRequest:
        return "refused"
    inner = any_token(random, vocabulary, 40)
    ends = [token for token, piece in enumerate(vocabulary.pieces) if piece in (b"<", b"'", b"\n")]

    def choose(allowed: Allowed) -> int:
        usable = [token for token in ends if allowed[token]]
        return random.choice(usable) if usable and random.random() < 0.3 else inner(allowed)

    try:
        driven = drive(constraint, vocabulary, choose, max_tokens=limit)
    except ConstraintFailed as exc:
        if "no value was found" not in exc.message:
            raise
        return "given up"
    assert_calls_hold(driven, [tool])
    return driven.end


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(ROWS), st.integers(0, 2**32))
def test_whatever_is_chosen_a_finished_call_holds(row: str, seed: int) -> None:
    outcome(row, seed, 500)


@pytest.mark.parametrize("row", ROWS)
def test_the_search_hardly_ever_gives_up(row: str) -> None:
    outcomes = [outcome(row, seed, 900) for seed in range(25)]
    assert outcomes.count("refused") == 0
    assert outcomes.count("given up") <= 2
    assert outcomes.count("stop") >= 15


@pytest.mark.parametrize("row", ROWS)
def test_what_the_check_finds_is_taken_back(row: str) -> None:
    """Twice the same item is wrong; the search finds others."""
    tags = {"type": "array", "items": {"enum": ["p", "q", "r"]}, "uniqueItems": True, "minItems": 2}
    schema = {"type": "object", "properties": {"tags": tags}, "required": ["tags"]}
    tool = Callee("f", schema, "")
    vocabulary, compiler = compilers()
    constraint = compiler.compile_now(Plan(row_named(row), "required", (tool,), parallel=False))
    first = ord("p")

    def choose(allowed: Allowed) -> int:
        return first if allowed[first] else int(allowed.nonzero()[0][0])

    driven = drive(constraint, vocabulary, choose, max_tokens=400)
    assert driven.end == "stop"
    assert driven.taken_back
    assert_calls_hold(driven, [tool])
