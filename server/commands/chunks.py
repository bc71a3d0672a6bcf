"""The stream of any OpenAI-compatible server as pieces of an answer. No I/O."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from server.commands.endpoint import Done, Piece
from server.errors import CallwrightError
from server.events import CallArguments, CallBegins, CallEnds, FinishReason, Reasoning, Text, Usage
from server.wire.body import JsonObject
from server.wire.ids import new_call_id

_REASONS: dict[str, FinishReason] = {
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
}


async def sse_data(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each server-sent event, without `[DONE]`."""
    parts: list[bytes] = []
    async for line in _lines(chunks):
        if line.startswith(b"data:"):
            parts.append(line[5:].removeprefix(b" "))
        elif not line and parts:
            data = b"\n".join(parts)
            parts = []
            if data != b"[DONE]":
                yield data


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Lines end in LF or CRLF only: some servers write U+2028 raw, where other readers break.

    An empty line is added at the end, which some servers leave out.
    """
    rest = b""
    async for chunk in chunks:
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield line.removesuffix(b"\r")
    yield rest
    yield b""


class _Function(BaseModel):
    name: str | None = None
    arguments: str | JsonObject | None = None


class _Call(BaseModel):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Delta(BaseModel):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(BaseModel):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _PromptDetails(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(BaseModel):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


class ChunkReader:
    """Turns the chunks of one answer into pieces. No I/O."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._open: _Call | None = None
        self._count = 0
        self._has_arguments = False

    def read(self, data: bytes) -> Iterator[Piece]:
        """Raises CallwrightError for an error in the stream, and for what is no chunk."""
        try:
            chunk = _Chunk.model_validate_json(data)
        except ValidationError:
            shown = data[:200].decode("utf-8", "replace")
            raise CallwrightError(f"the server sent no chunk of an answer: {shown}") from None
        if chunk.error is not None:
            raise CallwrightError(message_of(chunk.error))
        if chunk.usage is not None:
            details = chunk.usage.prompt_tokens_details or _PromptDetails()
            self._usage = Usage(
                chunk.usage.prompt_tokens,
                chunk.usage.completion_tokens,
                cached_tokens=details.cached_tokens or 0,
            )
        for choice in chunk.choices[:1]:
            yield from self._delta(choice.delta)
            self._reason = choice.finish_reason or self._reason

    def _delta(self, delta: _Delta) -> Iterator[Piece]:
        if delta.reasoning_content:
            yield Reasoning(delta.reasoning_content)
        if delta.content:
            yield Text(delta.content)
        for call in delta.tool_calls or ():
            if call.function.name and self._is_new(call):
                yield from self._close()
                self._open = call
                self._count += 1
                yield CallBegins(self._count - 1, call.id or new_call_id(), call.function.name)
            arguments = call.function.arguments
            if arguments and self._open is not None:
                self._has_arguments = True
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                yield CallArguments(self._count - 1, text)

    def _is_new(self, call: _Call) -> bool:
        """Some servers count no index, some repeat name and id in every chunk of a call."""
        before = self._open
        return (
            before is None or call.index != before.index or bool(call.id and call.id != before.id)
        )

    def _close(self) -> Iterator[Piece]:
        if self._open is not None:
            if not self._has_arguments:
                yield CallArguments(self._count - 1, "{}")
            yield CallEnds(self._count - 1)
        self._open = None
        self._has_arguments = False

    def end(self) -> Iterator[Piece]:
        """What follows after the last chunk. Raises CallwrightError if it came too early."""
        if self._reason is None:
            raise CallwrightError("the server ended the answer before it was complete")
        if self._reason != "length":  # a call may have been cut then
            yield from self._close()
        yield Done(_REASONS.get(self._reason, "stop"), self._usage)


def message_of(error: Any) -> str:
    """The text inside any of the envelopes that servers put errors into."""
    while isinstance(error, dict):
        error = error.get("error") or error.get("message") or error.get("detail") or str(error)
    return str(error)[:2000]
