"""LangChain4j's two readers of a stream, over what the whole server sends it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.errors import ConstraintFailed
from server.events import CallArguments, CallBegins, Event
from server.reply import ChunkWriter
from tests.langchain4j import Answer, Call, FinalMessage, LiveCalls, read_plain, read_stream
from tests.serving import CHAT, ask, call, rig, started, tool

NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [tool("get_weather"), tool("now", {}), tool("note", NOTE)]
WEATHER = [call("get_weather", json.dumps({"city": city})) for city in "ABCDE"]


async def both_answers(said: str, **fields: Any) -> tuple[Answer, Answer]:
    """The plain one and the streamed one, each from a server that has answered nothing before."""
    body = ask("please", tools=TOOLS, **fields)
    async with started(rig({"please": said})) as client:
        plain = await client.post(CHAT, json=body)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with started(rig({"please": said})) as client:
        streamed = await client.post(CHAT, json={**body, **options})
    assert (plain.status_code, streamed.status_code) == (200, 200)
    return read_plain(plain.json()), read_stream(streamed.text)


def without_ids(calls: list[Call]) -> list[tuple[str, str]]:
    return [(one.name, one.arguments) for one in calls]


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("Hello.", 0),
        (WEATHER[0], 1),
        ("Let me look.\n" + WEATHER[0], 1),
        ("\n".join(WEATHER[:2]), 2),
        ("\n".join(WEATHER), 5),
        (call("now", "{}"), 1),
        (call("note", json.dumps({"text": 'Grüße, 天気 "🦜"\n\u2028 \\'}, ensure_ascii=False)), 1),
    ],
)
async def test_both_readers_see_the_plain_answer(said: str, count: int) -> None:
    plain, streamed = await both_answers(said)
    assert len(plain.final) == count
    assert without_ids(streamed.final) == without_ids(plain.final)
    assert streamed.live == streamed.final
    assert len({one.id for one in streamed.final} - {""}) == count
    assert streamed.text == plain.text
    assert streamed.finish_reason == plain.finish_reason == ("tool_calls" if count else "stop")
    assert streamed.usage == plain.usage


@pytest.mark.parametrize("limit", range(1, 40, 3))
async def test_a_cut_call_is_the_same_in_both_and_no_ghost(limit: int) -> None:
    plain, streamed = await both_answers(WEATHER[0], tool_choice="required", max_tokens=limit)
    assert streamed.finish_reason == plain.finish_reason == "length"
    assert without_ids(streamed.final) == without_ids(plain.final)
    assert streamed.live == streamed.final
    assert all(one.name and one.arguments for one in streamed.live)


@pytest.mark.parametrize("begun", [0, 1, 2])
def test_an_error_amid_a_call_is_told_and_runs_nothing_that_was_not_begun(begun: int) -> None:
    """The listener completes what it has when a stream ends, also after an error."""
    writer = ChunkWriter(id="chatcmpl-1", created=7, model="m", include_usage=True)
    happened: list[Event] = [CallBegins(0, "abcDEF123", "note"), CallArguments(0, '{"text": "')]
    chunks = [
        writer.opening(),
        *map(writer.write, happened[:begun]),
        writer.error(ConstraintFailed("x")),
    ]
    answer = read_stream(b"".join(chunks).decode())
    assert len(answer.errors) == 1
    assert json.loads(answer.errors[0])["error"]["message"]
    assert [one.arguments for one in answer.live] == (['{"text": "'] if begun == 2 else [])
    assert answer.finish_reason is None


# The readers themselves: what they must not be fed shows in them.


def taken(reader: FinalMessage | LiveCalls, *deltas: Any) -> list[Call]:
    for delta in deltas:
        reader.take(delta)
    return reader.end()


def test_a_repeated_id_or_name_would_be_doubled() -> None:
    twice = {"index": 0, "id": "id", "function": {"name": "look", "arguments": "{}"}}
    assert taken(FinalMessage(), twice, twice) == [Call("idid", "looklook", "{}{}")]
    assert taken(LiveCalls(), twice, twice) == [Call("id", "look", "{}{}")]


def test_an_index_that_does_not_begin_at_zero_would_be_a_ghost() -> None:
    late = {"index": 1, "id": "id", "function": {"name": "look", "arguments": "{}"}}
    assert taken(LiveCalls(), late) == [Call("", "", "{}"), Call("id", "look", "{}")]


def test_a_header_without_arguments_would_be_run_with_none() -> None:
    header = {"index": 0, "id": "id", "function": {"name": "look", "arguments": ""}}
    assert taken(LiveCalls(), header) == [Call("id", "look", "{}")]
    assert taken(FinalMessage(), header) == [Call("id", "look", "")]
