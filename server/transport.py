"""Answers that end when their client goes away, plain or streamed, on top of ASGI."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection before it was answered."""


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled with ClientGone if the client leaves first.

    The body must have been read: only then does the next message mean a disconnect.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        await _cancel(gone)
        await _cancel(task)


class EventStream(Response):
    """Server-sent events from an iterator, which is closed when the client leaves."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(gone)
            await _cancel(sending)
            await self._events.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async for data in self._events:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def with_pauses(items: AsyncIterator[T], pause_s: float) -> AsyncGenerator[T | None, None]:
    """The items, and None whenever `pause_s` seconds pass without one."""
    loop = asyncio.get_running_loop()
    async with _read_ahead([items]) as came:
        while came.more:
            timer = loop.call_later(pause_s, came.wake)
            try:
                await came.something()
            finally:
                timer.cancel()
            if came.items:
                yield came.take()[1]
            elif came.more:
                yield None


async def interleaved(sources: Sequence[AsyncIterator[T]]) -> AsyncGenerator[tuple[int, T], None]:
    """What the sources give, as it comes, each item with the index of its source.

    The first source to fail ends it. The caller closes the sources.
    """
    if len(sources) == 1:  # the usual case, which needs no tasks
        async for item in sources[0]:
            yield 0, item
        return
    async with _read_ahead(sources) as came:
        while came.more:
            await came.something()
            if came.items:
                yield came.take()


class _Arrivals(Generic[T]):
    """What some sources have given and nobody has taken yet: `items` of them.

    A task per source, not one per item: an answer has an item for every token.
    """

    def __init__(self, sources: Sequence[AsyncIterator[T]]) -> None:
        self.items = 0
        self._by_source: deque[tuple[int, deque[T]]] = deque()  # whose turn it is comes first
        self._awaited: asyncio.Future[None] | None = None
        self.readers = [
            asyncio.ensure_future(self._read(i, source)) for i, source in enumerate(sources)
        ]

    def take(self) -> tuple[int, T]:
        """An item, in turn of each source that has one; there must be one."""
        while not self._by_source[0][1]:
            self._by_source.rotate(-1)
        index, came = self._by_source[0]
        self._by_source.rotate(-1)
        self.items -= 1
        return index, came.popleft()

    @property
    def more(self) -> bool:
        """Whether there are items, or may be. Raises what a source has failed with."""
        if self.items:
            return True
        for reader in self.readers:
            if reader.done():
                reader.result()
        return not all(reader.done() for reader in self.readers)

    async def something(self) -> None:
        """Wait until there are items, a source has ended, or `wake` was called."""
        if not self.items:
            self._awaited = asyncio.get_running_loop().create_future()
            await self._awaited

    def wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    async def _read(self, index: int, source: AsyncIterator[T]) -> None:
        came: deque[T] = deque()
        self._by_source.append((index, came))
        try:
            async for item in source:
                came.append(item)
                self.items += 1
                self.wake()
        finally:
            self.wake()


@contextlib.asynccontextmanager
async def _read_ahead(sources: Sequence[AsyncIterator[T]]) -> AsyncIterator[_Arrivals[T]]:
    arrivals = _Arrivals(sources)
    try:
        yield arrivals
    finally:
        for reader in arrivals.readers:
            await _cancel(reader)
            if not reader.cancelled():
                reader.exception()  # was seen by nobody, and need not be


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(task: asyncio.Future[T]) -> None:
    """Cancel a task and wait until it has cleaned up; its result is not of interest."""
    if not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
