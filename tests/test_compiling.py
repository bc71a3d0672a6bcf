"""Lanes and the cache of compiled constraints."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from server.compiling import CACHED, LARGE, Cache, Lanes
from server.constraint import Constraint, ConstraintCompiler
from server.plan import Plan
from tests.fakes import WAIT_S, byte_vocabulary
from tests.test_constraint import CITY, TEXT, members, plan


def test_what_is_large_keeps_nothing_small_waiting() -> None:
    lanes, gate = Lanes(), threading.Event()
    large = lanes.submit(lambda key: gate.wait(WAIT_S), "x" * (LARGE + 1))
    assert lanes.submit(lambda key: key, "small").result(WAIT_S) == "small"
    assert not large.done()
    gate.set()
    assert large.result(WAIT_S)
    lanes.close()


def test_equal_plans_come_one_after_the_other() -> None:
    lanes, gate = Lanes(), threading.Event()
    first = lanes.submit(lambda key: gate.wait(WAIT_S), "key")
    second = lanes.submit(lambda key: first.done(), "key")
    gate.set()
    assert second.result(WAIT_S)
    lanes.close()


async def test_a_plan_that_is_known_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = ConstraintCompiler(byte_vocabulary(), can_retry=True)
    known = await compiler.compile(plan(CITY))
    gate, began = threading.Event(), threading.Event()
    compile_plan = compiler._compile

    def slow(wanted: Plan) -> Constraint:
        began.set()
        gate.wait(WAIT_S)
        return compile_plan(wanted)

    monkeypatch.setattr(compiler, "_compile", slow)
    waiting = asyncio.create_task(compiler.compile(plan(members(v=TEXT))))
    assert await asyncio.to_thread(began.wait, WAIT_S)
    assert await compiler.compile(plan(CITY)) is known
    assert not waiting.done()
    gate.set()
    await waiting
    compiler.close()


def test_the_cache_is_for_several_threads() -> None:
    cache: Cache[int] = Cache()

    def fill(start: int) -> None:
        for number in range(start, start + 500):
            cache.put(str(number % 300), number)
            cache.get(str(number % 7))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(0, 2000, 500)))
    kept = [key for key in map(str, range(300)) if cache.get(key) is not None]
    assert 0 < len(kept) <= CACHED
    assert cache._size == sum(map(len, kept))
