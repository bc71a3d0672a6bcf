from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.types import Message

from server.bodies import HELD, LARGE, Bodies
from server.errors import Busy, TooLarge
from tests.fakes import WAIT_S
from tests.serving import CHAT, ask, rig, soon, started


def request(
    *chunks: bytes, rest: asyncio.Event | None = None, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Request:
    """A request whose body comes in chunks, the end of it when `rest` says so."""

    async def messages() -> AsyncIterator[Message]:
        for chunk in chunks:
            yield {"type": "http.request", "body": chunk, "more_body": True}
        if rest is not None:
            await rest.wait()
        yield {"type": "http.request", "body": b"", "more_body": False}

    coming = messages()
    return Request({"type": "http", "method": "POST", "headers": list(headers)}, coming.__anext__)


async def test_a_body_comes_in_pieces_and_is_parsed_whole() -> None:
    assert await Bodies(9).parsed(request(b"abc", b"", b"def"), bytes.upper) == b"ABCDEF"


async def test_large_bodies_are_parsed_one_at_a_time() -> None:
    inside: list[None] = []

    def parse(body: bytes) -> int:
        inside.append(None)
        time.sleep(0.01)  # for another one to come, if it could
        count = len(inside)
        inside.pop()
        return count

    bodies, large = Bodies(LARGE), bytes(LARGE)
    counts = await asyncio.gather(*(bodies.parsed(request(large), parse) for _ in range(5)))
    assert counts == [1] * 5


async def test_small_bodies_wait_for_no_other() -> None:
    together = threading.Barrier(3, timeout=WAIT_S)

    def parse(body: bytes) -> int:
        return together.wait()

    bodies = Bodies(LARGE)
    parsed = (bodies.parsed(request(bytes(size)), parse) for size in (LARGE, 5, 7))
    assert sorted(await asyncio.gather(*parsed)) == [0, 1, 2]


async def test_what_all_requests_hold_is_bounded_and_given_back() -> None:
    bodies, rest = Bodies(10), asyncio.Event()

    held = [
        asyncio.ensure_future(bodies.parsed(request(bytes(10), rest=rest), len))
        for _ in range(HELD)
    ]
    await soon(lambda: bodies.held == 10 * HELD, "all are held")
    with pytest.raises(Busy):
        await bodies.parsed(request(b"x"), len)
    rest.set()
    assert await asyncio.gather(*held) == [10] * HELD
    assert bodies.held == 0
    assert await bodies.parsed(request(b"x"), len) == 1


async def test_a_body_over_the_limit_is_refused_and_given_back() -> None:
    bodies = Bodies(10)
    for over in (request(bytes(11)), request(bytes(9), b"ab")):
        with pytest.raises(TooLarge):
            await bodies.parsed(over, len)
    declared = request(headers=((b"content-length", b"11"),))
    with pytest.raises(TooLarge):
        await bodies.parsed(declared, len)
    assert bodies.held == 0


async def test_a_failing_parser_gives_back_too() -> None:
    bodies = Bodies(10)
    with pytest.raises(ZeroDivisionError):
        await bodies.parsed(request(b"x"), lambda body: 1 // 0)
    assert bodies.held == 0


async def test_a_compressed_body_is_told_so() -> None:
    async with started(rig({})) as client:
        answer = await client.post(CHAT, content=gzip.compress(json.dumps(ask("hello")).encode()))
    assert answer.status_code == 400
    assert "compressed" in answer.json()["error"]["message"]
