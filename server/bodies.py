"""The bodies of requests, on their way to what is asked, with bounds on all of them together.

A body of 8 MiB can become 200 MB of small objects, which Python makes without letting anything else
run: so large ones are read as JSON one at a time, and not too many are held at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from server.errors import Busy, InvalidRequest, TooLarge

T = TypeVar("T")

LARGE = 1 << 18  # bytes of a body: what is smaller becomes a few megabytes at most
HELD = 16  # largest bodies that may be held at the same time


class Bodies:
    """Reads the bodies of all requests. Bytes: `limit` of one, `held` of all now."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0
        self._large = asyncio.Semaphore(1)

    async def parsed(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of the request's body, in a thread.

        Raises TooLarge as soon as that is certain, Busy where other requests hold too much,
        InvalidRequest, and what `parse` raises.
        """
        chunks: list[bytes] = []
        try:
            await self._read(request, chunks)
            body = b"".join(chunks)
            if len(body) < LARGE:
                return await asyncio.to_thread(parse, body)
            async with self._large:
                return await asyncio.to_thread(parse, body)
        finally:
            self.held -= sum(map(len, chunks))

    async def _read(self, request: Request, chunks: list[bytes]) -> None:
        """Append what comes to `chunks`, each counted as held."""
        too_large = TooLarge(f"the body is over the limit of {self._limit} bytes")
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > self._limit:
            raise too_large
        size = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > self._limit:
                    raise too_large
                chunks.append(chunk)
                self.held += len(chunk)
                if self.held > self._limit * HELD:
                    raise Busy("too many large requests are on their way in", retry_after_s=1)
        except (TooLarge, Busy):
            raise
        except Exception as exc:  # starlette's ClientDisconnect: nobody will read the answer
            raise InvalidRequest("the body was cut off") from exc
