"""Cases of the template benchmark, put to a server; how long each answer took.

Of this server `/tokenize` and `/detokenize` give the prompt that a request has. The unconstrained
baseline needs them: `/v1/completions` continues that prompt as free text.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import httpx

from prompts.bench.cases import Case
from prompts.bench.results import Answer, Arm
from prompts.bench.run import body_of
from prompts.select import OWN_TEMPLATES
from server.commands.chunks import ChunkReader, message_of, sse_data
from server.commands.endpoint import Done
from server.errors import CallwrightError
from server.events import CallArguments, CallBegins, Reasoning, Text, Usage
from server.wire.body import JsonObject


class Asker:
    """An `Ask` over `http`, whose base address has `/chat/completions` under it.

    `is_ours`: the server takes `include_timings`, which others may refuse.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        base: str,
        *,
        is_ours: bool,
        tool_choice: str = "auto",
        max_tokens: int = 512,
    ) -> None:
        self._http = http
        self._base = base
        self._is_ours = is_ours
        self._tool_choice = tool_choice
        self._max_tokens = max_tokens

    async def __call__(self, arm: Arm, case: Case) -> Answer:
        """Never raises for what the server does: that is the answer's `error`."""
        body = body_of(arm, case, tool_choice=self._tool_choice, max_tokens=self._max_tokens)
        took = _Answering()
        try:
            if arm.constrained:
                await self._chat(body, took)
                if self._is_ours:
                    await self._read_prompt(body, took)
            else:
                await self._complete(arm, await self._read_prompt(body, took), body, took)
        except httpx.HTTPError as exc:
            took.error = str(exc) or type(exc).__name__
        except CallwrightError as exc:
            took.error = exc.message
        return took.answer()

    async def _chat(self, body: JsonObject, took: _Answering) -> None:
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        if self._is_ours:
            body["include_timings"] = True
        reader = ChunkReader()
        async with self._http.stream("POST", f"{self._base}/chat/completions", json=body) as reply:
            await _refused(reply)
            async for data in sse_data(reply.aiter_bytes()):
                took.see_timings(data)
                for piece in reader.read(data):
                    took.take(piece)
        for piece in reader.end():
            took.take(piece)
        took.end()

    async def _read_prompt(self, body: JsonObject, took: _Answering) -> list[int]:
        root = self._base.removesuffix("/v1")
        asked = {key: body[key] for key in body if key not in ("temperature", "max_tokens")}
        tokens: list[int] = (await self._post(f"{root}/tokenize", asked))["tokens"]
        took.prompt = (await self._post(f"{root}/detokenize", {"tokens": tokens}))["content"]
        return tokens

    async def _complete(
        self, arm: Arm, tokens: list[int], body: JsonObject, took: _Answering
    ) -> None:
        rest = {key: body[key] for key in ("model", "temperature", "max_tokens")}
        own = OWN_TEMPLATES.get(arm.template)
        if own is not None and own.row.end:  # else the model's own end of a turn is enough
            rest["stop"] = list(own.row.end)
        took.begin()  # the time of an answer begins when its prompt is sent
        reply = await self._post(f"{self._base}/completions", {**rest, "prompt": tokens})
        took.end()
        usage = reply["usage"]
        took.take(Text(str(reply["choices"][0]["text"])))
        took.first_s = None  # it came in one piece
        cut = reply["choices"][0]["finish_reason"] == "length"
        took.take(
            Done(
                "length" if cut else "stop",
                Usage(
                    usage["prompt_tokens"],
                    usage["completion_tokens"],
                    usage["prompt_tokens_details"]["cached_tokens"],
                ),
            )
        )

    async def _post(self, url: str, body: JsonObject) -> Any:
        reply = await self._http.post(url, json=body)
        await _refused(reply)
        try:
            return reply.json()
        except ValueError:
            raise CallwrightError("the server's answer is not JSON") from None


def is_callwright(base: str, headers: dict[str, str]) -> bool:
    """Whether the server at `base` is one of ours: its models say so."""
    try:
        reply = httpx.get(f"{base}/models", headers=headers, timeout=30, trust_env=False)
        return any(one.get("owned_by") == "callwright" for one in reply.json()["data"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError):
        return False


async def _refused(reply: httpx.Response) -> None:
    if reply.status_code == 200:
        return
    content = await reply.aread()
    said = content[:200].decode("utf-8", "replace")
    with suppress(ValueError):
        said = message_of(json.loads(content))
    raise CallwrightError(f"status {reply.status_code}: {said[:300]}")


class _Answering:
    """An answer while it comes."""

    def __init__(self) -> None:
        self.first_s: float | None = None
        self.error: str | None = None
        self.prompt: str | None = None
        self._wall_s: float | None = None
        self._text = ""
        self._calls: list[tuple[str, str]] = []
        self._usage: Usage | None = None
        self._passes: int | None = None
        self._margin: float | None = None
        self._cut = False
        self.begin()

    def begin(self) -> None:
        self._began = time.perf_counter()

    def end(self) -> None:
        self._wall_s = round(time.perf_counter() - self._began, 4)

    def take(self, piece: object) -> None:
        match piece:
            case Text(text):
                self._text += text
            case CallBegins(_, _, name):
                self._calls.append((name, ""))
            case CallArguments(_, text):
                name, before = self._calls[-1]
                self._calls[-1] = (name, before + text)
            case Done():
                self._usage = piece.usage
                self._cut = piece.reason == "length"
        if self.first_s is None and isinstance(piece, Text | Reasoning | CallBegins):
            self.first_s = round(time.perf_counter() - self._began, 4)

    def see_timings(self, data: bytes) -> None:
        """Only our server adds them, to its last chunk."""
        if b'"timings"' in data:
            with suppress(ValueError, LookupError, TypeError):
                timings = json.loads(data)["timings"]
                self._passes = int(timings["forward_passes"])
                self._margin = float(timings["call_margin"])

    def answer(self) -> Answer:
        return Answer(
            calls=tuple(self._calls),
            text=self._text,
            wall_s=self._wall_s or round(time.perf_counter() - self._began, 4),
            first_s=self.first_s,
            prompt=self.prompt,
            prompt_tokens=self._usage.prompt_tokens if self._usage else None,
            cached_tokens=self._usage.cached_tokens if self._usage else None,
            output_tokens=self._usage.completion_tokens if self._usage else None,
            forward_passes=self._passes,
            call_margin=self._margin,
            cut=self._cut,
            error=self.error,
        )
