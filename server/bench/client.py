"""One server under measurement: asks, and notes when what came."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from server.bench.bodies import Answer, Call, Mode, Script
from server.commands.chunks import ChunkReader, message_of, sse_data
from server.commands.endpoint import Done, Piece
from server.commands.remote import bearer
from server.errors import CallwrightError
from server.events import CallArguments, CallBegins, Reasoning, Text, Usage
from server.wire.body import JsonObject

TIMEOUT = httpx.Timeout(600, connect=10)

_PASSES = re.compile(
    r"^(?:callwright:forward_passes_total|llamacpp:n_decode_total)\s+(\S+)", re.MULTILINE
)


@dataclass(frozen=True)
class Target:
    """A server: `url` is the base under which `/chat/completions` is; `model` as it knows it."""

    name: str
    url: str
    model: str
    mode: Mode
    key: str | None = None


@dataclass(frozen=True)
class Reply:
    """An answer with its times, in seconds from the sending of the request.

    `first_s` and `last_s` are of pieces of text or call, None without any; `pieces` is how many
    came. `usage` is None where the server does not tell. After an `error` the rest is what came
    before it.
    """

    answer: Answer
    wall_s: float
    first_s: float | None = None
    last_s: float | None = None
    pieces: int = 0
    usage: Usage | None = None
    error: str | None = None


class Client:
    """Asks one server."""

    def __init__(self, target: Target, http: httpx.AsyncClient) -> None:
        self.target = target
        self.script = Script(target.mode)
        self._http = http
        self._headers = bearer(target.key)

    async def ask(self, body: JsonObject) -> Reply:
        """The streamed answer to a request. Never raises for what the server does."""
        listener = _Listener()
        error = None
        try:
            async with self._http.stream(
                "POST", self._completions, json=self._streamed(body), headers=self._headers
            ) as response:
                if response.status_code != 200:
                    error = _refusal(response.status_code, await response.aread())
                else:
                    await listener.listen(response)
        except httpx.HTTPError as exc:
            error = str(exc) or type(exc).__name__
        except CallwrightError as exc:
            error = exc.message
        return listener.reply(error)

    async def count_prompt(self, body: JsonObject) -> int | None:
        """Tokens of a prompt, asked for plainly: some servers count them only there."""
        counting = {**body, "model": self.target.model, "max_tokens": 1}
        try:
            response = await self._http.post(
                self._completions, json=counting, headers=self._headers
            )
            return int(response.json()["usage"]["prompt_tokens"])
        except (httpx.HTTPError, ValueError, LookupError, TypeError):
            return None

    async def forward_passes(self) -> float | None:
        """How many the server has made so far, from its metrics; None if it does not tell."""
        root = self.target.url.removesuffix("/v1")
        try:
            response = await self._http.get(f"{root}/metrics", headers=self._headers)
        except httpx.HTTPError:
            return None
        found = _PASSES.search(response.text) if response.status_code == 200 else None
        return float(found[1]) if found else None

    @property
    def _completions(self) -> str:
        return f"{self.target.url}/chat/completions"

    def _streamed(self, body: JsonObject) -> JsonObject:
        return {
            **body,
            "model": self.target.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Client]:
    """A client with a connection for each request, as many as it takes, past all proxies.

    One that both ends give up at the same moment would be a failure of the server's.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=TIMEOUT, limits=limits, trust_env=False) as http:
        yield Client(target, http)


class _Listener:
    """Puts an answer together while it comes."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._moments: list[float] = []
        self._text = ""
        self._calls: list[Call] = []
        self._done: Done | None = None

    async def listen(self, response: httpx.Response) -> None:
        reader = ChunkReader()
        async for data in sse_data(response.aiter_bytes()):
            for piece in reader.read(data):
                self._take(piece)
        for piece in reader.end():
            self._take(piece)

    def _take(self, piece: Piece) -> None:
        match piece:
            case Text(text):
                self._text += text
            case CallBegins(_, id, name):
                self._calls.append(Call(id, name, ""))
            case CallArguments(_, text):
                before = self._calls[-1]
                self._calls[-1] = Call(before.id, before.name, before.arguments + text)
            case Done():
                self._done = piece
        if isinstance(piece, Text | Reasoning | CallBegins | CallArguments):
            self._moments.append(self._elapsed())

    def _elapsed(self) -> float:
        return time.perf_counter() - self._began

    def reply(self, error: str | None) -> Reply:
        done = self._done
        return Reply(
            answer=Answer(
                self._text, tuple(self._calls), cut=done is not None and done.reason == "length"
            ),
            wall_s=self._elapsed(),
            first_s=self._moments[0] if self._moments else None,
            last_s=self._moments[-1] if self._moments else None,
            pieces=len(self._moments),
            usage=done.usage if done else None,
            error=error,
        )


def _refusal(status: int, content: bytes) -> str:
    try:
        said = message_of(httpx.Response(status, content=content).json())
    except ValueError:
        said = content[:200].decode("utf-8", "replace").strip()
    return f"status {status}: {said[:200]}"
