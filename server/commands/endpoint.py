"""Where `callwright chat` gets its answers from: a model in this process, or any server."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

from server.commands.local import load_parts
from server.config import Settings
from server.events import (
    CallArguments,
    CallBegins,
    CallEnds,
    Finish,
    FinishReason,
    Logprobs,
    Reasoning,
    Text,
    Usage,
)
from server.wire.body import JsonObject
from server.wire.chat import parse_chat_request

if TYPE_CHECKING:
    from server.parts import Parts


@dataclass(frozen=True)
class Done:
    """The last piece of an answer. None for what a server does not tell."""

    reason: FinishReason
    usage: Usage | None = None
    forced_tokens: int | None = None


Piece = Reasoning | Text | CallBegins | CallArguments | CallEnds | Done


class Endpoint(Protocol):
    """Answers chat requests, which come without `model` and `stream`."""

    @property
    def model(self) -> str: ...

    def answer(self, request: JsonObject) -> AsyncGenerator[Piece, None]:
        """The pieces of the answer as they come, Done at last. Closing it cancels the answer.

        Raises CallwrightError.
        """


class InProcess:
    """The model of `parts`, whose engine runs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def model(self) -> str:
        return self._parts.model_names[0]

    async def answer(self, request: JsonObject) -> AsyncGenerator[Piece, None]:
        body = json.dumps({"model": self.model, **request}).encode()
        answer = await self._parts.chat.start(parse_chat_request(body, self._parts.settings))
        async with aclosing(answer.events()) as events:
            async for event in events:
                if isinstance(event, Finish):
                    timings = answer.generation.sequence.timings
                    yield Done(event.reason, event.usage, timings.forced_tokens)
                elif not isinstance(event, Logprobs):
                    yield event


@contextmanager
def in_process(settings: Settings, console: Console) -> Iterator[InProcess]:
    """Fetch and load the model, run it, and end it. Raises SetupError."""
    parts = load_parts(settings.model_copy(update={"responses_store": "off"}), console)
    parts.engine.start()
    try:
        yield InProcess(parts)
    finally:
        parts.engine.stop(grace_s=0)
        parts.compiler.close()
