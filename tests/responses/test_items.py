from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.errors import InvalidRequest
from server.responses.items import (
    MessageItem,
    ReasoningItem,
    as_kept,
    read_items,
    seal,
    unseal,
)

CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "12"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


def refused(item: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read_items([{"role": "user", "content": "x"}, item])
    return caught.value


def part(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "text": text, "annotations": []}


@pytest.mark.parametrize(
    "content",
    [
        "ab",
        [part("input_text", "a"), part("input_text", "b")],
        [part("output_text", "a"), {"type": "refusal", "refusal": "b"}],
        [part("text", "ab")],
    ],
)
@pytest.mark.parametrize("head", [{}, {"type": "message"}, {"type": "message", "id": "msg_1"}])
def test_a_message_has_its_text_in_any_spelling(content: Any, head: dict[str, Any]) -> None:
    [item] = read_items([{**head, "role": "assistant", "content": content}])
    assert isinstance(item, MessageItem)
    assert item.content == "ab"


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
         "input[1].content[0]"),
        ({"role": "user", "content": [part("input_text", "a"), {"type": "input_file"}]},
         "input[1].content[1]"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[1].content[0]"),
        ({"role": "tool", "content": "x"}, "input[1].role"),
        ({"role": "user"}, "input[1].content"),
        ({**CALL, "name": ""}, "input[1].name"),
        ({**CALL, "arguments": {}}, "input[1].arguments"),
        ({**OUTPUT, "output": [{"type": "input_image"}]}, "input[1].output[0]"),
        ({"type": "web_search_call", "id": "ws_1"}, "input[1]"),
        ({"type": ["message"]}, "input[1]"),
        ({**CALL, "id": "x" * 257}, "input[1].id"),
        ({**REASONING, "encrypted_content": "gAAAA"}, "input[1]"),
        (3, "input[1]"),
        ({}, "input[1].role"),
    ],
)  # fmt: skip
def test_an_item_that_will_not_do_is_named_with_its_place(item: Any, param: str) -> None:
    assert refused(item).param == param


def test_an_item_of_another_type_is_refused_by_its_name() -> None:
    assert "'computer_call_output'" in refused({"type": "computer_call_output"}).message


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"content": [part("reasoning_text", "a"), part("reasoning_text", "b")]}, "ab"),
        ({"encrypted_content": seal("Hmm… 🤔")}, "Hmm… 🤔"),
        ({"summary": [part("summary_text", "s")]}, "s"),
        ({"summary": [part("summary_text", "s")], "encrypted_content": seal("all")}, "all"),
        ({"summary": [part("summary_text", "s")], "encrypted_content": "of elsewhere"}, "s"),
        ({"content": [part("reasoning_text", "a")], "encrypted_content": "of elsewhere"}, "a"),
    ],
)
def test_reasoning_is_read_from_where_it_is(fields: dict[str, Any], text: str) -> None:
    [item] = read_items([{**REASONING, **fields}])
    assert isinstance(item, ReasoningItem)
    assert item.text == text


@settings(deadline=None)
@given(st.text())
def test_what_was_sealed_is_unsealed(text: str) -> None:
    sealed = seal(text.encode("utf-8", "replace").decode())
    assert unseal(sealed) == text.encode("utf-8", "replace").decode()


@settings(deadline=None)
@given(st.text())
def test_what_was_not_sealed_here_is_not_read(text: str) -> None:
    assert unseal(text) is None or text.startswith("callwright:")
    unseal("callwright:" + text)  # raises nothing


def test_kept_items_are_complete() -> None:
    raw: list[dict[str, Any]] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "id": "msg_b"},
        {**CALL, "id": "msg_b", "status": None},
        OUTPUT,
        REASONING,
    ]
    kept = as_kept(raw)
    assert [item["type"] for item in kept] == [
        "message", "message", "function_call", "function_call_output", "reasoning",
    ]  # fmt: skip
    ids = [item["id"] for item in kept]
    assert len(set(ids)) == 5
    assert ids[1] == "msg_b"
    assert [ids[n].split("_")[0] for n in (0, 2, 3, 4)] == ["msg", "fc", "fco", "rs"]
    assert [item.get("status") for item in kept] == ["completed"] * 4 + [None]
    assert kept[0]["content"] == [{"type": "input_text", "text": "a"}]
    assert kept[1]["content"] == [{"type": "output_text", "text": "b", "annotations": []}]
    assert read_items(kept)[:1] == read_items([{**raw[0], "id": ids[0]}])


def test_kept_items_are_kept_the_same() -> None:
    kept = as_kept([{"role": "user", "content": "a"}, CALL, OUTPUT])
    assert as_kept(kept) == kept
