from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing
from typing import Any

import pytest

from server.commands.endpoint import Done, Piece
from server.commands.remote import Remote, base_url
from server.errors import CallwrightError, SetupError
from server.events import CallArguments, CallBegins, CallEnds, Text, Usage
from tests.commands.helpers import (
    CALL_STREAM,
    MODELS,
    Answer,
    chat_server,
    delta,
    sse,
    text_stream,
)

REQUEST = {"messages": [{"role": "user", "content": "Hello \N{WAVING HAND SIGN}"}]}


async def pieces_of(remote: Remote, request: Any = REQUEST) -> list[Piece]:
    async with aclosing(remote.answer(request)) as source:
        return [piece async for piece in source]


async def test_a_question_goes_out_as_the_api_wants_it() -> None:
    with chat_server(MODELS, text_stream("Hi")) as server:
        remote = Remote(server.url, "secret", None)
        assert await pieces_of(remote) == [Text("Hi"), Done("stop")]
        assert remote.model == "first"
    (listed, _, _), (path, headers, body) = server.requests
    assert (listed, path) == ("/v1/models", "/v1/chat/completions")
    assert headers["authorization"] == "Bearer secret"
    assert body == {
        **REQUEST,
        "model": "first",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_a_named_model_is_not_asked_for_and_no_key_is_sent_without_one() -> None:
    with chat_server(Answer(CALL_STREAM)) as server:
        assert await pieces_of(Remote(server.url, None, "mine")) == [
            CallBegins(0, "call1", "get_weather"),
            CallArguments(0, '{"city":'),
            CallArguments(0, ' "Porto"}'),
            CallEnds(0),
            Done("tool_calls", Usage(20, 9)),
        ]
    [(_, headers, body)] = server.requests
    assert body["model"] == "mine"
    assert "authorization" not in headers


async def test_proxies_are_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with chat_server(MODELS, text_stream("Hi")) as server:
        assert (await pieces_of(Remote(server.url, None, None)))[0] == Text("Hi")
    with pytest.raises(SetupError, match=r"no answer from http://callwright\.invalid"):
        await pieces_of(Remote("http://callwright.invalid", None, "m"))


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    for model in (None, "mine"):
        with pytest.raises(SetupError, match=f"no answer from {url}/v1: ") as caught:
            await pieces_of(Remote(url, None, model))
        assert "callwright serve" in caught.value.hint


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (
            Answer(b'{"error": {"message": "a key is needed"}}', 401),
            "answered 401: a key is needed",
        ),
        (Answer(b"<h1>Bad gateway</h1>", 502), "answered 502: <h1>Bad gateway</h1>"),
        (Answer(b'{"choices": []}'), "ended the answer before it was complete"),
        (Answer(sse(delta(content="Hi"), end=b"")), "ended the answer before it was complete"),
        (
            Answer(sse({"error": {"message": "the engine failed"}}, end=b"")),
            "the engine failed",
        ),
    ],
)
async def test_what_a_server_may_do_wrong(answer: Answer, complaint: str) -> None:
    with chat_server(answer) as server, pytest.raises(CallwrightError, match=complaint):
        await pieces_of(Remote(server.url, None, "mine"))


@pytest.mark.parametrize("body", [b"{}", b'{"data": []}', b"<html>", b'{"data": [3]}'])
def test_a_server_without_models(body: bytes) -> None:
    with (
        chat_server(Answer(body)) as server,
        pytest.raises(SetupError, match="lists no models") as caught,
    ):
        Remote(server.url, None, None).model  # noqa: B018
    assert "--model" in caught.value.hint


async def test_an_answer_can_be_cancelled() -> None:
    hanging = Answer(sse(delta(content="Once"), end=b""), hangs=True)
    with chat_server(hanging) as server:
        seen = asyncio.Event()

        async def listen() -> None:
            async with aclosing(Remote(server.url, None, "mine").answer(REQUEST)) as source:
                async for _ in source:
                    seen.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(seen.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("127.0.0.1:8080/", "http://127.0.0.1:8080/v1"),
        ("localhost:8080", "http://localhost:8080/v1"),
        ("http://[::1]:8080/v1/", "http://[::1]:8080/v1"),
        ("https://host/api/v3", "https://host/api/v3"),
        ("https://host/v1/chat/completions", "https://host/v1"),
    ],
)
def test_addresses(url: str, base: str) -> None:
    assert base_url(url) == base


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http://host:port", "http://[::1"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(SetupError, match="is no address of a server") as caught:
        base_url(url)
    assert "http://127.0.0.1:8080" in caught.value.hint
