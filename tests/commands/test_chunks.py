from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.commands.chunks import ChunkReader, message_of, sse_data
from server.commands.endpoint import Done, Piece
from server.errors import CallwrightError
from server.events import CallArguments, CallBegins, CallEnds, Reasoning, Text, Usage
from tests.commands.helpers import CALL_STREAM, call_delta, delta, sse


def read(*chunks: Any) -> list[Piece]:
    reader = ChunkReader()
    pieces = [piece for chunk in chunks for piece in reader.read(json.dumps(chunk).encode())]
    return [*pieces, *reader.end()]


async def split(stream: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(stream), size):
        yield stream[start : start + size]


async def data_of(stream: bytes, size: int = 1000) -> list[bytes]:
    return [data async for data in sse_data(split(stream, size))]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_a_stream_may_be_cut_into_any_pieces(size: int) -> None:
    assert await data_of(CALL_STREAM, size) == await data_of(CALL_STREAM)
    assert len(await data_of(CALL_STREAM, size)) == 6


async def test_server_sent_events_as_servers_write_them() -> None:
    stream = (
        b": ping\n\n"
        b"event: error\ndata: 1\n\n"
        b"data:2\r\n\r\n"
        b"data: 3\ndata: 4\n\n"
        b"id: 7\nretry: 3\n\n"
        b"data: \xe2\x80\xa8\xc2\x85\n\n"  # line ends in Unicode's sense, not here
        b"data: [DONE]\n\n"
        b"data: the last one without an empty line"
    )
    assert await data_of(stream) == [
        b"1", b"2", b"3\n4", b"\xe2\x80\xa8\xc2\x85", b"the last one without an empty line"
    ]  # fmt: skip


@given(st.lists(st.text(), max_size=6), st.integers(1, 9))
async def test_any_text_comes_through(texts: list[str], size: int) -> None:
    stream = sse(*(delta(content=text) for text in texts), delta("stop"))
    pieces = read(*[json.loads(data) for data in await data_of(stream, size)])
    assert pieces == [*(Text(text) for text in texts if text), Done("stop")]


def test_text_reasoning_and_usage() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    assert read(
        delta(role="assistant", content=""),
        delta(reasoning_content="Hm"),
        delta(content="Hi"),
        delta("stop"),
        {"choices": [], "usage": usage},
    ) == [Reasoning("Hm"), Text("Hi"), Done("stop", Usage(5, 2, cached_tokens=3))]


BEGIN, END = CallBegins(0, "call1", "f"), CallEnds(0)
DONE = Done("tool_calls")


@pytest.mark.parametrize(
    "chunks",
    [
        [call_delta("f", ""), call_delta(None, '{"a"', id=None), call_delta(None, ":1}", id=None)],
        [call_delta("f", '{"a"'), call_delta("f", ":1}")],  # name and id repeated
        [call_delta("f", '{"a"', index=None), call_delta("", ":1}", index=None, id="")],
    ],
)
def test_a_call_in_pieces(chunks: list[Any]) -> None:
    *pieces, end, done = read(*chunks, delta("tool_calls"))
    assert pieces == [BEGIN, CallArguments(0, '{"a"'), CallArguments(0, ":1}")]
    assert (end, done) == (END, DONE)


@pytest.mark.parametrize("indexes", [(0, 1), (None, None), (0, 0)])
def test_several_calls_also_from_servers_that_do_not_count(indexes: tuple[int | None, ...]) -> None:
    first, second = indexes
    assert read(
        call_delta("f", "{}", index=first),
        call_delta("g", "[]", index=second, id="call2"),
        delta("tool_calls"),
    ) == [
        BEGIN, CallArguments(0, "{}"), END,
        CallBegins(1, "call2", "g"), CallArguments(1, "[]"), CallEnds(1), DONE,
    ]  # fmt: skip


def test_arguments_may_be_missing_or_an_object() -> None:
    assert read(call_delta("f", None), delta("stop"))[1] == CallArguments(0, "{}")
    chunk = call_delta("f", None)
    chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = {"a": 1}
    assert read(chunk, delta("stop"))[1] == CallArguments(0, '{"a": 1}')


def test_a_call_without_an_id_gets_one() -> None:
    begin = read(call_delta("f", "{}", id=None), delta("tool_calls"))[0]
    assert isinstance(begin, CallBegins)
    assert len(begin.id) == 9


def test_a_call_that_was_cut_does_not_end() -> None:
    assert read(call_delta("f", '{"a'), delta("length")) == [
        BEGIN, CallArguments(0, '{"a'), Done("length")
    ]  # fmt: skip


def test_an_answer_that_breaks_off_is_an_error() -> None:
    with pytest.raises(CallwrightError, match="before it was complete"):
        read(delta(content="Hi"))


def test_an_error_in_the_stream() -> None:
    with pytest.raises(CallwrightError, match=r"^no memory$"):
        read(delta(content="Hi"), {"error": {"message": "no memory", "type": "server_error"}})


@pytest.mark.parametrize("data", [b"<html>", b"[1]", b'{"choices": 3}', b"\xff"])
def test_what_is_no_chunk_is_shown(data: bytes) -> None:
    with pytest.raises(CallwrightError, match="the server sent no chunk of an answer: "):
        list(ChunkReader().read(data))


@pytest.mark.parametrize(
    "error", [{"error": {"message": "no"}}, {"error": "no"}, {"detail": "no"}, "no"]
)
def test_envelopes_of_errors(error: Any) -> None:
    assert message_of(error) == "no"


def test_an_unknown_envelope_is_shown_as_it_is() -> None:
    assert message_of({"code": 3}) == "{'code': 3}"
