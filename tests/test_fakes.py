"""The scripted runner refuses what llama.cpp would not do: only then do tests with it say much."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from server.engine.runner import BatchItem, DecodeFailed, OutOfCells
from tests.fakes import (
    IM_END,
    OPENING,
    Gate,
    Misuse,
    ScriptedRunner,
    Scripts,
    UnexpectedPrompt,
    byte_vocabulary,
)

VOCABULARY = byte_vocabulary()


def runner_of(*runs: bytes, context_length: int = 20, can_cut: bool = True) -> ScriptedRunner:
    """A runner whose sequence 0, 1, … holds these bytes."""
    runner = ScriptedRunner(
        lambda tokens: tokens[-1], context_length=context_length, can_cut=can_cut
    )
    for sequence_id, run in enumerate(runs):
        runner.decode(items(run, sequence_id))
    return runner


def items(run: bytes, sequence_id: int = 0, start: int = 0) -> list[BatchItem]:
    return [
        BatchItem(token, start + at, sequence_id, at == len(run) - 1)
        for at, token in enumerate(run)
    ]


@pytest.mark.parametrize(
    "batch",
    [
        [],
        items(b"x", start=3),  # a hole after position 1
        items(b"x", start=1),  # held already
        items(b"x", sequence_id=99),
        [BatchItem(1000, 2, 0, False)],
        items(b"x" * 65, sequence_id=1),
    ],
    ids=["empty", "hole", "twice", "sequence", "token", "size"],
)
def test_a_wrong_batch_is_misuse(batch: list[BatchItem]) -> None:
    runner = runner_of(b"ab", context_length=200)
    with pytest.raises(Misuse):
        runner.decode(batch)
    with pytest.raises(AssertionError):
        runner.check()


def test_cells_are_shared_cut_and_counted() -> None:
    runner = runner_of(b"abcd")
    runner.copy_prefix(0, 1, 3)
    runner.decode(items(b"xy", 1, start=3))
    assert (runner.held(1), runner.used_cells) == ([*b"abcxy"], 6)
    runner.cut(0, 0)
    assert (runner.held(1), runner.used_cells) == ([*b"abcxy"], 5)
    runner.cut(1, 1)
    assert (runner.held(1), runner.used_cells) == ([*b"a"], 1)
    runner.clear()
    assert runner.used_cells == 0
    runner.check()


def test_full_cells_refuse_a_batch_and_hold_nothing_of_it() -> None:
    runner = runner_of(b"x" * 18)
    with pytest.raises(OutOfCells):
        runner.decode(items(b"abc", 1))
    assert (runner.used_cells, runner.held(1)) == (18, [])
    runner.decode(items(b"ab", 1))
    runner.check()


def test_wrong_copies_and_cuts_are_misuse() -> None:
    runner = runner_of(b"ab", b"cd")
    uses: list[Callable[[], None]] = [
        lambda: runner.copy_prefix(0, 1, 1),  # 1 holds something
        lambda: runner.copy_prefix(0, 2, 3),
        lambda: runner.copy_prefix(0, 2, 0),
        lambda: runner.copy_prefix(0, 99, 1),
        lambda: runner.cut(0, 3),
        lambda: runner.cut(99, 0),
    ]
    for use in uses:
        with pytest.raises(Misuse):
            use()


def test_a_model_that_cannot_be_cut_gives_all_or_nothing() -> None:
    runner = runner_of(b"ab", can_cut=False)
    with pytest.raises(Misuse):
        runner.cut(0, 1)
    with pytest.raises(Misuse):
        runner.copy_prefix(0, 1, 2)
    runner.cut(0, 0)
    assert runner.used_cells == 0


def test_logits_are_of_the_tokens_held_and_only_where_wanted() -> None:
    runner = runner_of(b"ab", b"cd")
    with pytest.raises(Misuse):
        runner.logits(0)
    logits = runner.logits(1)
    assert int(logits.argmax()) == ord("d")
    assert (logits == runner.prefer([*b"cd"])).all()
    assert not (logits == runner.prefer([*b"xd"])).all()
    with pytest.raises(ValueError, match="read-only"):
        logits[0] = 0


def test_after_a_failed_pass_only_clearing_helps() -> None:
    runner = runner_of(b"ab")
    runner.fail_next(DecodeFailed("on demand"))
    with pytest.raises(DecodeFailed, match="on demand"):
        runner.decode(items(b"c", start=2))
    with pytest.raises(Misuse):
        runner.decode(items(b"c", start=2))
    runner.clear()
    runner.decode(items(b"c"))


def test_a_closed_runner_is_of_no_use() -> None:
    runner = runner_of()
    runner.close()
    with pytest.raises(Misuse):
        runner.close()
    with pytest.raises(Misuse):
        runner.decode(items(b"a"))


def test_a_gate_counts_and_holds() -> None:
    gate = Gate(allowed=2)
    gate.enter()
    gate.enter()
    gate.wait(2)
    gate.open()
    gate.enter()
    gate.wait(3)


def answer(scripts: Scripts, prompt: str) -> str:
    tokens = VOCABULARY.encode_prompt(prompt, "\0")
    said: list[int] = []
    while not said or said[-1] != IM_END:
        said.append(scripts((*tokens, *said)))
    return VOCABULARY.decode(said[:-1]).decode()


def test_a_script_is_found_by_the_last_key_in_the_prompt() -> None:
    scripts = Scripts({"one": "1", "two": "<tool_call>2", "three": "3"})
    assert answer(scripts, f"one{OPENING}1<|im_end|>two{OPENING}") == "<tool_call>2"
    assert answer(scripts, f"two{OPENING}2<|im_end|>one{OPENING}") == "1"
    assert scripts.unused == {"three"}


def test_a_prompt_without_script_is_unexpected() -> None:
    with pytest.raises(UnexpectedPrompt):
        answer(Scripts({"one": "1"}), f"two{OPENING}")
    with pytest.raises(UnexpectedPrompt):
        answer(Scripts({"one": "1"}), "one, but no answer may begin")
    with pytest.raises(UnexpectedPrompt):
        answer(Scripts({}), OPENING)


def test_an_unexpected_prompt_in_a_pass_is_kept_for_the_end_of_the_test() -> None:
    runner = ScriptedRunner(Scripts({"one": "1"}))
    runner.decode(items(b"two"))
    with pytest.raises(UnexpectedPrompt):
        runner.logits(2)
    with pytest.raises(AssertionError):
        runner.check()
