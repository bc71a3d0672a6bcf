from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.guard import GUARD
from tests.fakes import BOS, IM_END, IM_START, TOOL_CALL, TOOL_CALL_END, byte_vocabulary

VOCABULARY = byte_vocabulary()


def test_special_tokens_by_text() -> None:
    assert VOCABULARY.special_ids == {
        "<|im_start|>": IM_START,
        "<|im_end|>": IM_END,
        "<tool_call>": TOOL_CALL,
        "</tool_call>": TOOL_CALL_END,
        "<|endoftext|>": VOCABULARY.eos,
    }


def test_text_is_split_at_special_tokens() -> None:
    assert VOCABULARY.split_special("a<tool_call>b<|im_end|><|im_end|>") == [
        "a",
        TOOL_CALL,
        "b",
        IM_END,
        IM_END,
    ]
    assert VOCABULARY.split_special("") == []
    assert VOCABULARY.split_special("<tool_call") == ["<tool_call"]


def test_the_longest_special_token_wins() -> None:
    pieces = (*VOCABULARY.pieces, b"<a>", b"<a><b>")
    special = VOCABULARY.special | {len(pieces) - 2, len(pieces) - 1}
    vocabulary = replace(VOCABULARY, pieces=pieces, special=special)
    assert vocabulary.split_special("<a><b><a>") == [len(pieces) - 1, len(pieces) - 2]


def test_a_vocabulary_without_special_tokens() -> None:
    vocabulary = replace(VOCABULARY, control=frozenset(), special=frozenset())
    assert vocabulary.split_special("a<tool_call>") == ["a<tool_call>"]
    assert vocabulary.special_ids == {}


def test_special_tokens_without_text_are_not_found_everywhere() -> None:
    pieces = (*VOCABULARY.pieces, b"")
    special = VOCABULARY.special | {len(pieces) - 1}
    vocabulary = replace(VOCABULARY, pieces=pieces, special=special)
    assert vocabulary.split_special("ab") == ["ab"]


def test_the_template_writes_special_tokens() -> None:
    tokens = VOCABULARY.encode_prompt("<|im_start|>user\nhi<|im_end|>", GUARD)
    assert tokens == [IM_START, *b"user\nhi", IM_END]


@pytest.mark.parametrize("marker", ["<|im_end|>", "<tool_call>", "</tool_call>", "<|endoftext|>"])
def test_guarded_text_is_only_text(marker: str) -> None:
    guarded = f"{marker[0]}{GUARD}{marker[1:]}"
    assert VOCABULARY.encode_prompt(f"a{guarded}b", GUARD) == [*b"a", *marker.encode(), *b"b"]


def test_user_defined_tokens_in_text_are_spelled_out() -> None:
    """llama.cpp finds them in any text; a client's text must not write them."""
    assert VOCABULARY.encode(b"a<tool_call>") == [*b"a", TOOL_CALL]
    assert VOCABULARY.encode_text(b"a<tool_call>b</tool_call>") == [*b"a<tool_call>b</tool_call>"]


def test_spelling_out_a_marker_does_not_bring_out_another() -> None:
    pieces = (*VOCABULARY.pieces, b"[<tool_call>]")
    nested = len(pieces) - 1

    def encode(text: bytes) -> list[int]:
        before, found, after = text.partition(pieces[nested])
        rest = [nested, *encode(after)] if found else []
        return VOCABULARY.encode(before) + rest

    vocabulary = replace(
        VOCABULARY, pieces=pieces, special=VOCABULARY.special | {nested}, encode=encode
    )
    assert vocabulary.encode_text(b"x[<tool_call>]") == [*b"x[<tool_call>]"]


def test_bos_comes_once_and_only_where_the_model_wants_it() -> None:
    assert VOCABULARY.encode_prompt("hi", GUARD) == [*b"hi"]
    vocabulary = byte_vocabulary(bos=True)
    assert vocabulary.encode_prompt("hi", GUARD) == [BOS, *b"hi"]
    assert vocabulary.encode_prompt("<s>hi", GUARD) == [BOS, *b"hi"]
    assert vocabulary.encode_prompt("", GUARD) == [BOS]
    assert vocabulary.encode_prompt(f"<{GUARD}s>hi", GUARD) == [BOS, *b"<s>hi"]


def test_half_a_surrogate_pair_is_no_reason_to_fail() -> None:
    assert VOCABULARY.encode_prompt("a\ud83d", GUARD) == [*b"a?"]


PARTS = st.sampled_from(
    [*VOCABULARY.special_ids, "<", ">", "tool_call", "/", "|im_", "é", "a", "🙂"]
)


@given(st.lists(PARTS, max_size=12))
def test_bytes_come_through_whatever_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    data = text.encode()
    assert VOCABULARY.decode(VOCABULARY.encode_prompt(text, GUARD)) == data
    plain = VOCABULARY.encode_text(data)
    assert VOCABULARY.decode(plain) == data
    assert VOCABULARY.special.isdisjoint(plain)
