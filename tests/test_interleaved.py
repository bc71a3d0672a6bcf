"""Several sources as one: `server.transport.interleaved`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from server.transport import interleaved


async def letters(text: str, open_: asyncio.Event | None = None) -> AsyncGenerator[str, None]:
    for letter in text:
        if open_ is not None:
            await open_.wait()
        yield letter


async def test_every_item_comes_with_its_source_and_in_its_order() -> None:
    sources = [letters("abc"), letters(""), letters("de")]
    items = [item async for item in interleaved(sources)]
    assert sorted(items) == [(0, "a"), (0, "b"), (0, "c"), (2, "d"), (2, "e")]
    assert [letter for index, letter in items if index == 0] == ["a", "b", "c"]


async def test_a_source_that_waits_holds_up_no_other() -> None:
    open_ = asyncio.Event()
    seen = []
    async for _, letter in interleaved([letters("ab", open_), letters("cd")]):
        seen.append(letter)
        if seen == ["c", "d"]:
            open_.set()
    assert seen == ["c", "d", "a", "b"]


async def test_the_first_to_fail_ends_it_and_nothing_is_left_running() -> None:
    async def fails() -> AsyncIterator[str]:
        raise ValueError("no")
        yield ""

    with pytest.raises(ValueError, match="no"):
        async for _ in interleaved([letters("abc", asyncio.Event()), fails(), fails()]):
            pass
    assert len(asyncio.all_tasks()) == 1


async def test_whoever_stops_listening_leaves_nothing_running() -> None:
    source = interleaved([letters("abc"), letters("def", asyncio.Event())])
    assert await anext(source) == (0, "a")
    await source.aclose()
    assert len(asyncio.all_tasks()) == 1
