from __future__ import annotations

import asyncio
import socket
import time

import pytest

from server.bench.bodies import Answer as Said
from server.bench.bodies import Mode
from server.bench.client import Client, Reply, Target, connect
from server.bench.workloads import Series
from server.wire.body import JsonObject
from tests.bench.helpers import FakeServer, fake_server, level, right, usage
from tests.commands.helpers import Answer, call_delta, delta, sse

[DIALOGUE, *_] = Series(1, "abc").dialogues(level("warm5"), 0)
[CHAT, *_] = Series(1, "abc").dialogues(level("chat"), 0)


def target(server: FakeServer | str, mode: Mode = "tools", key: str | None = None) -> Target:
    url = server if isinstance(server, str) else server.url
    return Target("fake", f"{url}/v1", "fake", mode, key)


async def ask(client: Client, chat: bool = False) -> Reply:
    return await client.ask(client.script.body(CHAT if chat else DIALOGUE, []))


async def test_a_call_and_its_times() -> None:
    with fake_server() as server:
        began = time.perf_counter()
        async with connect(target(server, key="secret")) as client:
            reply = await ask(client)
        took = time.perf_counter() - began
    assert [call.name for call in reply.answer.calls] == [DIALOGUE.tools[0].name]
    assert reply.answer.calls[0].arguments.startswith("{")
    assert not reply.answer.cut
    assert reply.error is None
    assert reply.pieces == 2
    assert reply.first_s is not None
    assert reply.last_s is not None
    assert 0 < reply.first_s <= reply.last_s <= reply.wall_s <= took
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 7
    assert reply.usage.cached_tokens == reply.usage.prompt_tokens // 2
    [body] = server.bodies
    assert body["model"] == "fake"
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert server.keys == {"Bearer secret"}


async def test_text() -> None:
    with fake_server() as server:
        async with connect(target(server)) as client:
            reply = await ask(client, chat=True)
    assert reply.answer == Said("Once upon a time")
    assert reply.pieces == 3
    assert server.keys == {None}


async def test_a_cut_answer_without_usage() -> None:
    cut = Answer(sse(delta(content="Once"), delta("length")))
    with fake_server(lambda _: cut) as server:
        async with connect(target(server)) as client:
            reply = await ask(client, chat=True)
    assert reply.answer == Said("Once", cut=True)
    assert reply.usage is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(b'{"error": {"message": "it is full"}}', 429), "status 429: it is full"),
        (Answer(b"<h1>Bad gateway</h1>", 502), "status 502: <h1>Bad gateway</h1>"),
        (Answer(sse(delta(content="Hi"), end=b"")), "ended the answer before it was complete"),
        (Answer(sse({"error": {"message": "out of cells"}})), "out of cells"),
        (Answer(b"data: {oops\n\n"), "no chunk"),
    ],
)  # fmt: skip
async def test_what_a_server_does_wrong_is_a_value(answer: Answer, error: str) -> None:
    with fake_server(lambda _: answer) as server:
        async with connect(target(server)) as client:
            replies = [await ask(client), await ask(client)]
    for reply in replies:
        assert reply.error is not None
        assert error in reply.error


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    async with connect(target(url)) as client:
        assert (await ask(client)).error
        assert await client.forward_passes() is None
        assert await client.count_prompt({}) is None


async def test_forward_passes_come_from_the_metrics() -> None:
    with fake_server(passes=30) as server:
        async with connect(target(server)) as client:
            assert await client.forward_passes() == 30
            server.passes = None
            assert await client.forward_passes() is None


async def test_the_prompt_can_be_counted_plainly() -> None:
    def plain(body: JsonObject) -> Answer:
        assert "stream" not in body
        assert body["max_tokens"] == 1
        return Answer(sse(usage(body), end=b"").removeprefix(b"data: "))

    with fake_server(plain) as server:
        async with connect(target(server)) as client:
            body = client.script.body(DIALOGUE, [])
            counted = await client.count_prompt(body)
    assert counted == usage(body)["usage"]["prompt_tokens"]


async def test_many_ask_at_the_same_time() -> None:
    with fake_server() as server:

        def together(body: JsonObject) -> Answer:
            deadline = time.monotonic() + 10
            while server.most < 5 and time.monotonic() < deadline:
                time.sleep(0.005)
            return right(body)

        server.brain = together
        async with connect(target(server)) as client:
            replies = await asyncio.gather(*(ask(client) for _ in range(5)))
    assert server.most == 5
    assert all(reply.error is None for reply in replies)


async def test_two_calls_are_both_kept() -> None:
    two = Answer(sse(call_delta("a", "{}"), call_delta("b", "{}", 1, "call2"), delta("tool_calls")))
    with fake_server(lambda _: two) as server:
        async with connect(target(server)) as client:
            reply = await ask(client)
    assert [call.name for call in reply.answer.calls] == ["a", "b"]
