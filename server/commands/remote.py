"""A running OpenAI-compatible server as an endpoint of `callwright chat`."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import AsyncGenerator
from typing import NoReturn
from urllib.parse import urlsplit

import httpx

from server.commands.chunks import ChunkReader, message_of, sse_data
from server.commands.endpoint import Piece
from server.errors import CallwrightError, SetupError
from server.wire.body import JsonObject

# A model on a CPU may read a long prompt for minutes before the first byte.
TIMEOUT = httpx.Timeout(600, connect=10)


def bearer(key: str | None) -> dict[str, str]:
    """The header that an API key goes into."""
    return {"Authorization": f"Bearer {key}"} if key else {}


class Remote:
    """A server at `url`; `key` is sent as its API key. Other servers than ours are met halfway."""

    def __init__(self, url: str, key: str | None, model: str | None) -> None:
        self._base = base_url(url)
        self._headers = bearer(key)
        self._use_proxies = not _is_this_machine(urlsplit(self._base).hostname or "")
        self._model = model

    @property
    def model(self) -> str:
        """The name that was given, else the first one that the server lists."""
        if self._model is None:
            self._model = self._first_model()
        return self._model

    def _first_model(self) -> str:
        try:
            with httpx.Client(timeout=TIMEOUT, trust_env=self._use_proxies) as client:
                response = client.get(f"{self._base}/models", headers=self._headers)
        except httpx.HTTPError as exc:
            self._fail(exc)
        if response.status_code != 200:
            raise _refusal(response.status_code, response.content)
        try:
            return str(response.json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise SetupError(
                f"{self._base} lists no models", hint="Name one with --model, or check --url."
            ) from None

    async def answer(self, request: JsonObject) -> AsyncGenerator[Piece, None]:
        body = {
            "model": self.model,
            **request,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        reader = ChunkReader()
        try:
            async with (
                httpx.AsyncClient(timeout=TIMEOUT, trust_env=self._use_proxies) as client,
                client.stream(
                    "POST", f"{self._base}/chat/completions", json=body, headers=self._headers
                ) as response,
            ):
                if response.status_code != 200:
                    raise _refusal(response.status_code, await response.aread())
                async for data in sse_data(response.aiter_bytes()):
                    for piece in reader.read(data):
                        yield piece
        except httpx.HTTPError as exc:
            self._fail(exc)
        for piece in reader.end():
            yield piece

    def _fail(self, exc: httpx.HTTPError) -> NoReturn:
        why = str(exc) or type(exc).__name__
        hint = "`callwright serve` starts a server." if isinstance(exc, httpx.ConnectError) else ""
        raise SetupError(f"no answer from {self._base}: {why}", hint=hint) from None


def base_url(url: str) -> str:
    """The address under which `/chat/completions` is; `/v1` is added where there is no path.

    Raises SetupError if it is no address of a web server.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SetupError(
            f"--url {url!r} is no address of a server", hint="An example: http://127.0.0.1:8080"
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refusal(status: int, content: bytes) -> CallwrightError:
    try:
        said = message_of(json.loads(content))
    except ValueError:
        said = content[:200].decode("utf-8", "replace").strip()
    return CallwrightError(f"the server answered {status}: {said}")
