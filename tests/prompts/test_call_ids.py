from __future__ import annotations

import re

import pytest

from prompts.call_ids import with_ids
from prompts.conversation import Message, PastCall
from prompts.formats import Ids


def history(*ids: str) -> list[Message]:
    messages = []
    for number, one in enumerate(ids):
        messages += [
            Message("assistant", calls=(PastCall(one, f"f{number}", {}),)),
            Message("tool", f"result {number}", call_id=one, name=f"f{number}"),
        ]
    return messages


def ids_of(messages: list[Message]) -> list[tuple[str, str]]:
    """(id of the call, id of its result) by turn."""
    return [
        (call.calls[0].id, result.call_id)
        for call, result in zip(messages[::2], messages[1::2], strict=True)
    ]


@pytest.mark.parametrize("ids", ["none", "any", "index", "alnum9", "kimi"])
def test_results_keep_the_id_of_their_call_also_where_ids_repeat(ids: Ids) -> None:
    pairs = ids_of(with_ids(history("toolu_01Xyz", "a", "a", "", "", "Abcdefgh1"), ids))
    assert all(call == result for call, result in pairs)
    assert len({call for call, _ in pairs}) == len(pairs)


def test_nine_letters_or_digits_are_kept_and_anything_else_becomes_so() -> None:
    pairs = ids_of(with_ids(history("Abcdefgh1", "toolu_01-very-long"), "alnum9"))
    assert pairs[0][0] == "Abcdefgh1"
    assert re.fullmatch("[a-zA-Z0-9]{9}", pairs[1][0])


def test_kimi_counts_the_calls_of_the_conversation() -> None:
    messages = [
        Message("assistant", calls=(PastCall("x", "f", {}), PastCall("y", "g", {}))),
        Message("tool", "1", call_id="y"),
        Message("assistant", calls=(PastCall("x", "f", {}),)),
    ]
    shaped = with_ids(messages, "kimi")
    assert [call.id for call in shaped[0].calls] == ["functions.f:0", "functions.g:1"]
    assert shaped[1].call_id == "functions.g:1"
    assert shaped[2].calls[0].id == "functions.f:2"


def test_foreign_ids_stay_where_the_family_has_no_rule() -> None:
    assert ids_of(with_ids(history("toolu_01Xyz"), "any")) == [("toolu_01Xyz", "toolu_01Xyz")]


def test_a_result_without_a_call_gets_an_id_too() -> None:
    (orphan,) = with_ids([Message("tool", "x", call_id="lost", name="f")], "alnum9")
    assert re.fullmatch("[a-z0-9]{9}", orphan.call_id)


def test_the_same_history_gives_the_same_ids() -> None:
    assert with_ids(history("a", "", "b"), "alnum9") == with_ids(history("a", "", "b"), "alnum9")
