"""Answers that end when their client goes away, plain or streamed, on top of ASGI."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.errors import InvalidRequest, TooLarge

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection before it was answered."""


async def read_body(request: Request, limit: int) -> bytes:
    """The request's body. Raises TooLarge as soon as it is certain."""
    too_large = TooLarge(f"the body is over the limit of {limit} bytes")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise too_large
            chunks.append(chunk)
    except TooLarge:
        raise
    except Exception as exc:  # starlette's ClientDisconnect: nobody will read the answer
        raise InvalidRequest("the body was cut off") from exc
    return b"".join(chunks)


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
    following: asyncio.Task[T] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(_next(items))
            done, _ = await asyncio.wait({following}, timeout=pause_s)
            if not done:
                yield None
                continue
            try:
                item = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield item
    finally:
        if following is not None:
            await _cancel(following)


async def interleaved(sources: Sequence[AsyncIterator[T]]) -> AsyncGenerator[tuple[int, T], None]:
    """What the sources give, as it comes, each item with the index of its source.

    The first source to fail ends it. The caller closes the sources.
    """
    waiting = {asyncio.ensure_future(_next(source)): i for i, source in enumerate(sources)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda task: waiting[task]):
                try:
                    item = task.result()
                except StopAsyncIteration:
                    del waiting[task]
                    continue
                index = waiting.pop(task)
                waiting[asyncio.ensure_future(_next(sources[index]))] = index
                yield index, item
    finally:
        for task in waiting:
            await _cancel(task)
            if not task.cancelled():
                task.exception()  # was seen by nobody, and need not be


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(task: asyncio.Future[T]) -> None:
    """Cancel a task and wait until it has cleaned up; its result is not of interest."""
    if not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
