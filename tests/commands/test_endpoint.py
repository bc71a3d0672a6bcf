from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from server.commands import endpoint
from server.commands.endpoint import Done, InProcess, in_process
from server.config import Settings
from server.errors import InvalidRequest
from server.events import Event, Finish, Text, Usage
from server.parts import Parts
from server.wire.chat import ChatRequest


class FakeParts:
    """Says `Hi` to everything, and notes what is done to it."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.model_names = ("main", "alias")
        self.log: list[str] = []
        self.engine = SimpleNamespace(
            start=lambda: self.log.append("start"),
            stop=lambda grace_s: self.log.append(f"stop {grace_s}"),
        )
        self.compiler = SimpleNamespace(close=lambda: self.log.append("close"))
        self.chat = self
        timings = SimpleNamespace(forced_tokens=3)
        self.generation = SimpleNamespace(sequence=SimpleNamespace(timings=timings))

    async def start(self, request: ChatRequest) -> FakeParts:
        self.log.append(f"{request.model}: {request.messages[-1].content}")
        return self

    async def events(self) -> AsyncGenerator[Event, None]:
        try:
            yield Text("Hi")
            yield Finish("stop", Usage(5, 1))
        finally:
            self.log.append("left")


@pytest.fixture
def parts() -> FakeParts:
    return FakeParts()


def request(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


async def test_a_request_goes_the_way_that_the_servers_requests_go(parts: FakeParts) -> None:
    model = InProcess(cast(Parts, parts))
    assert [piece async for piece in model.answer(request("Hello"))] == [
        Text("Hi"),
        Done("stop", Usage(5, 1), 3),
    ]
    assert parts.log == ["main: Hello", "left"]
    assert model.model == "main"


async def test_leaving_early_cancels(parts: FakeParts) -> None:
    async with aclosing(InProcess(cast(Parts, parts)).answer(request("Hello"))) as source:
        await anext(source)
        assert "left" not in parts.log
    assert parts.log[-1] == "left"


async def test_a_bad_request_is_refused_by_the_servers_reader(parts: FakeParts) -> None:
    with pytest.raises(InvalidRequest, match=r"messages\[0\]"):
        await anext(InProcess(cast(Parts, parts)).answer(request(3)))


def test_the_engine_ends_whatever_happens(
    parts: FakeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "load_parts", lambda settings, console: parts)

    def interrupted() -> None:
        with in_process(Settings(), Console()):
            assert parts.log == ["start"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert parts.log == ["start", "stop 0", "close"]
