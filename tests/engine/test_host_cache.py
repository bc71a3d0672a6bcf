"""Prefixes outlive their cells in ordinary memory, and come back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from server.engine.cache_file import CacheFile
from server.engine.engine import Engine, EngineOptions
from server.engine.host_cache import HostCache, Kept
from server.engine.runner import BatchItem, LlamaRunner, RunnerOptions
from tests.engine.helpers import job, prompt, run, serving
from tests.fakes import ScriptedRunner, Scripts

LONG = {name: f"question {name} " * 8 for name in "abc"}  # of over a hundred tokens


def says(names: str) -> Scripts:
    return Scripts({LONG[name]: f"answer {name}" for name in names})


def kept(*tokens: int) -> Kept:
    return Kept(list(tokens), np.zeros(10, np.uint8))


def test_the_longest_common_prefix_is_found() -> None:
    cache = HostCache(100)
    short, long = kept(1, 2), kept(1, 3, 4)
    cache.put(short)
    cache.put(long)
    assert cache.match([1, 3, 5], room=100) == (long, 2)
    assert cache.match([1, 2, 5], room=100) == (short, 2)
    assert cache.match([2], room=100) is None


def test_of_equal_ones_the_last_used_is_found() -> None:
    cache = HostCache(100)
    first, second = kept(1, 2, 3), kept(1, 4, 5)
    cache.put(first)
    cache.put(second)
    assert cache.match([1, 9], room=100) == (second, 1)


async def test_a_beginning_in_common_keeps_nobody_else_alive() -> None:
    names = "abcde"
    texts = {name: f"{name} question " * 6 for name in names}
    runner = ScriptedRunner(Scripts(dict.fromkeys(texts.values(), "x")), context_length=400)
    room = 2 * max(len(prompt(text)) + 2 for text in texts.values())
    with serving(runner, max_sequences=1, cached_tokens=0, host_cache_tokens=room) as engine:
        for name in names:
            await run(engine, job(texts[name]))
        again = await run(engine, job(texts["e"]))
        old = await run(engine, job(texts["a"]))
    assert again.timings
    assert again.timings.cached_tokens > 50
    assert old.timings
    assert old.timings.cached_tokens < 20


def test_what_there_is_no_room_for_is_not_found() -> None:
    cache = HostCache(100)
    cache.put(kept(1, 2, 3, 4))
    assert cache.match([1, 2, 7], room=5) is not None  # its four, and one more
    assert cache.match([1, 2, 7], room=4) is None


def test_the_least_recently_used_goes_first() -> None:
    cache = HostCache(5)
    first, second, third = (kept(token, token) for token in (1, 2, 3))
    cache.put(first)
    cache.put(second)
    cache.touch(first)
    cache.put(third)
    assert cache.kept == (first, third)
    assert cache.used_tokens == 4


def test_what_is_too_large_drives_nothing_out() -> None:
    cache = HostCache(2)
    cache.put(kept(1))
    cache.put(kept(2, 3, 4))
    assert [one.tokens for one in cache.kept] == [[1]]


def test_a_longer_one_takes_the_place_of_its_beginning() -> None:
    cache = HostCache(100)
    cache.put(kept(1, 2))
    cache.put(kept(1, 2, 3))
    cache.put(kept(1, 3))
    assert [one.tokens for one in cache.kept] == [[1, 2, 3], [1, 3]]
    assert cache.covers([1, 2])
    assert not cache.covers([1, 2, 4])


async def test_conversations_in_turn_find_their_prefix_again() -> None:
    """Though no cell is kept between them."""
    runner = ScriptedRunner(says("ab"), context_length=400)
    with serving(runner, cached_tokens=0, host_cache_tokens=10_000) as engine:
        for name in "ab":
            await run(engine, job(LONG[name]))
            assert runner.used_cells == 0
        for name in "aba":
            told = await run(engine, job(LONG[name]))
            assert told.text == f"answer {name}"
            assert told.timings.prefilled_tokens == 1


async def test_without_memory_for_it_they_start_over() -> None:
    runner = ScriptedRunner(says("ab"), context_length=400)
    with serving(runner, max_sequences=1, cached_tokens=0, host_cache_tokens=20) as engine:
        for name in "abab":
            told = await run(engine, job(LONG[name]))
            assert told.timings.prefilled_tokens > 50


async def test_a_prefix_that_does_not_come_back_is_computed_anew() -> None:
    class Forgetful(ScriptedRunner):
        def restore_sequence(self, sequence_id: int, state: NDArray[np.uint8]) -> bool:
            return False

    runner = Forgetful(says("a"), context_length=400)
    with serving(runner, cached_tokens=0, host_cache_tokens=10_000) as engine:
        for _ in range(2):
            told = await run(engine, job(LONG["a"]))
            assert told.text == "answer a"
            assert told.timings.cached_tokens == 0


async def test_a_restart_is_warm_with_what_was_in_memory(tmp_path: Path) -> None:
    file = CacheFile(tmp_path / "cache", "model")
    options = EngineOptions(
        1, cached_sequences=4, cached_tokens=0, batch_tokens=64, host_cache_tokens=10_000
    )
    for warm in (False, True):
        runner = ScriptedRunner(says("abc"), context_length=600)
        engine = Engine(runner, options, cache_file=file)
        engine.start()
        try:
            told = [await run(engine, job(LONG[name])) for name in "abc"]
        finally:
            engine.stop(grace_s=1)
        runner.check()
        assert {one.timings.prefilled_tokens == 1 for one in told} == {warm}


@pytest.mark.weights
def test_cells_of_a_real_model_come_back_as_they_were(small_model_path: Path) -> None:
    # Flash attention adds cell by cell; matrix products in blocks, so it matters where cells lie.
    options = RunnerOptions(context_length=512, sequences=4, flash_attention="on")
    runner = LlamaRunner(small_model_path, options)
    assert runner.can_copy_out
    tokens = [1000 + at for at in range(100)]

    def decode(first: int, last: int, sequence_id: int) -> NDArray[np.float32]:
        runner.decode(
            [BatchItem(tokens[at], at, sequence_id, at == last - 1) for at in range(first, last)]
        )
        return runner.logits(last - first - 1).copy()

    decode(0, 60, 0)
    runner.copy_prefix(0, 1, 40)
    decode(40, 90, 1)
    state = runner.save_sequence(1)
    expected = decode(90, 100, 1)
    runner.cut(0, 0)
    runner.cut(1, 0)
    decode(0, 7, 2)
    assert runner.restore_sequence(3, state)
    assert np.array_equal(decode(90, 100, 3), expected)
    runner.cut(3, 50)
    decode(50, 100, 3)
    assert not runner.restore_sequence(0, np.concatenate([state, state])[: len(state) + 1])
    runner.close()
