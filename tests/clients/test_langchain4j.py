"""LangChain4j, which is not to be had here: its bytes, its bodies, its readers, its transport.

`langchain4j/*.json` are bodies as it writes them, down to the white space, each with something that
servers have stumbled over. https://github.com/langchain4j/langchain4j is where to look.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Served
from tests.clients.weather import NAME, QUESTION, TIMEOUT_S, TOOL, Weather
from tests.java.jdk import java_with_compiler, jdk
from tests.langchain4j import JDK_HEADERS, Answer, read_plain, read_stream

BODIES = sorted((Path(__file__).parent / "langchain4j").glob("*.json"))
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
Post = Callable[[str], tuple[int, str]]


def as_jackson(body: dict[str, Any]) -> str:
    return json.dumps(body, indent=2, separators=(",", " : "), ensure_ascii=False)


class RawConnection:
    """One connection, on which every request asks for an upgrade; the server declines."""

    def __init__(self, url: str, *, body_later: bool) -> None:
        self._connection = http.client.HTTPConnection(
            urllib.parse.urlsplit(url).netloc, timeout=TIMEOUT_S
        )
        self._body_later = body_later

    def post(self, body: str) -> tuple[int, str]:
        content = body.encode()
        self._connection.putrequest(
            "POST", "/v1/chat/completions", skip_host=True, skip_accept_encoding=True
        )
        headers = {**JDK_HEADERS, "Content-Length": str(len(content))}
        for name, value in {**headers, "Host": self._connection.host}.items():
            self._connection.putheader(name, value)
        if self._body_later:
            self._connection.endheaders()
            time.sleep(0.2)
            self._connection.send(content)
        else:
            self._connection.endheaders(content)
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(params=["body with the headers", "body later"])
def raw(request: pytest.FixtureRequest, served: Served) -> Iterator[Post]:
    connection = RawConnection(served.url, body_later=request.param == "body later")
    yield connection.post
    connection.close()


@pytest.fixture
def java(served: Served) -> Iterator[Post]:
    path = java_with_compiler()
    if path is None:
        pytest.skip("there is no JDK")
    with jdk(path, f"{served.base_url}/chat/completions") as client:
        yield client.post


def ask(post: Post, body: str) -> Answer:
    status, text = post(body)
    assert status == 200, text
    answer = read_stream(text) if json.loads(body)["stream"] else read_plain(json.loads(text))
    assert answer.errors == []
    assert answer.usage
    assert answer.live == answer.final
    if answer.finish_reason != "length":
        assert (answer.finish_reason == "tool_calls") == bool(answer.final)
    return answer


def drive_the_loop(served: Served, post: Post, weather: Weather, stream: bool) -> None:
    user = {"role": "user", "content": QUESTION}
    common: dict[str, Any] = {"model": served.model, "temperature": 0.0, "stream": stream}
    if stream:
        common["stream_options"] = {"include_usage": True}
    first = ask(
        post, as_jackson({**common, "messages": [user], "tools": [TOOL], "tool_choice": "required"})
    )
    assert {call.name for call in first.final} == {NAME}
    calls = [
        {"id": one.id, "type": "function", "function": {"name": NAME, "arguments": one.arguments}}
        for one in first.final
    ]
    results = [
        {"role": "tool", "tool_call_id": one.id, "content": weather.run(one.arguments)}
        for one in first.final
    ]
    called = {"role": "assistant", "tool_calls": calls}  # no key `content`, as there was no text
    history = [user, called, *results]
    last = ask(
        post,
        as_jackson(
            {
                **common,
                "messages": history,
                "max_tokens": 40,
                "tools": [TOOL],
                "tool_choice": "none",
            }
        ),
    )
    assert last.final == []
    weather.check(last.text)


@PLAIN_AND_STREAMED
def test_the_loop_over_raw_bytes(served: Served, raw: Post, weather: Weather, stream: bool) -> None:
    drive_the_loop(served, raw, weather, stream)


@PLAIN_AND_STREAMED
def test_the_loop_over_the_client_of_the_jdk(
    served: Served, java: Post, weather: Weather, stream: bool
) -> None:
    drive_the_loop(served, java, weather, stream)


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
def test_a_body_as_it_is_written(served: Served, path: Path) -> None:
    body = path.read_text("utf-8").replace("MODEL", served.model)
    connection = RawConnection(served.url, body_later=False)
    answer = ask(connection.post, body)
    connection.close()
    asked = json.loads(body)
    names = {one["function"]["name"] for one in asked.get("tools", [])}
    assert {call.name for call in answer.final} <= names
    if asked.get("tool_choice") == "required":
        assert answer.final
    if "response_format" in asked and answer.finish_reason == "stop":
        assert set(json.loads(answer.text)) <= {"place", "sky"}
