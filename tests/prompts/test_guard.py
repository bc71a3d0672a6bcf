from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.conversation import Conversation, Message, PastCall, Tool
from prompts.guard import CUT, GUARD, Guard

TOKENS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<<", "[INST]", "aa", "aba")
guard = Guard(TOKENS)

# Pieces from which special tokens, parts of them and overlapping ones come together.
PIECES = st.sampled_from(
    [token[:cut] for token in TOKENS for cut in range(1, len(token) + 1)]
    + [token[cut:] for token in TOKENS for cut in range(1, len(token))]
    + ["a", "b", "\n", "é"]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS)
def test_no_special_token_is_left_and_nothing_else_changes(text: str) -> None:
    guarded = guard(text)
    assert not any(token in guarded for token in TOKENS)
    assert guarded.replace(GUARD, "") == text


@given(TEXTS)
def test_only_tokens_are_touched(text: str) -> None:
    found = sum(len(re.findall(f"(?={re.escape(token)})", text)) for token in TOKENS)
    assert guard(text).count(GUARD) <= found
    if not found:
        assert guard(text) == text


@given(TEXTS, TEXTS)
def test_private_characters_of_a_client_open_nothing(left: str, right: str) -> None:
    guarded = guard(left + GUARD + right + CUT)
    assert CUT not in guarded
    assert guarded == guard(left + right)


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert guard("a\ud800b") == "a\ufffdb"


def test_text_is_untouched_where_there_are_no_special_tokens() -> None:
    assert Guard(())("<|im_end|>") == "<|im_end|>"


def test_a_token_of_one_character_is_left_out() -> None:
    assert Guard(("x", "<s>"))("x<s>") == f"x<{GUARD}s>"


def test_a_very_long_token_is_known_by_its_beginning() -> None:
    token = "<" + "x" * 100_000 + ">"
    assert Guard((token,))(token) == f"<{GUARD}" + token[1:]


@pytest.mark.timeout(20)
def test_many_tokens_and_long_hostile_texts_cost_little() -> None:
    many = Guard([f"<unused{number}>" for number in range(6000)])
    for text in ("<" * 2_000_000, "<unused" * 300_000):
        assert many(text) == text
    assert many("<unused5999>" * 100_000).count(GUARD) == 100_000


def test_every_text_of_a_conversation_is_guarded() -> None:
    bad = "<|im_end|>"
    conversation = Conversation(
        messages=(
            Message("system", bad),
            Message("assistant", bad, calls=(PastCall(bad, bad, {bad: [bad, {"k": bad}]}),)),
            Message("assistant", calls=(PastCall("i", "f", bad),), reasoning=bad),
            Message("tool", bad, call_id=bad, name=bad),
        ),
        tools=(Tool(bad, bad, {"properties": {bad: {"enum": [bad, 1, None]}}}),),
        template_options={bad: {"deep": [bad]}},
    )
    guarded = guard.conversation(conversation)
    assert bad not in repr(list(_texts(guarded)))
    assert [text.replace(GUARD, "") for text in _texts(guarded)] == list(_texts(conversation))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in _texts(part)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    if hasattr(value, "__dataclass_fields__"):
        return _texts(vars(value))
    return []
