"""What a server knew when it ended, it knows when it starts again; whatever else is in the file."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import numpy as np
import pytest

from server.engine.cache_file import MAGIC, CacheFile, Warmth
from server.engine.engine import Engine, EngineOptions
from server.engine.prefix_cache import Books, PrefixCache
from server.engine.runner import LlamaRunner, RunnerOptions
from server.engine.sequence import Job
from server.errors import SetupError
from tests.engine.helpers import GREEDY, Free, Output, job, run
from tests.fakes import ScriptedRunner, Scripts

SAYS = {"one": "the first", "two": "the second"}
WARMTH = Warmth(Books([(-1, [1, 2], [0, 3]), (0, [5], [3])], [0, 3]), np.arange(9, dtype=np.uint8))


async def served(runner: ScriptedRunner, kept: CacheFile, *texts: str) -> list[Output]:
    options = EngineOptions(2, cached_sequences=4, cached_tokens=1024, batch_tokens=64)
    engine = Engine(runner, options, cache_file=kept)
    engine.start()
    try:
        return [await run(engine, job(text)) for text in texts]
    finally:
        engine.stop(grace_s=1)
        runner.check()


async def test_a_restart_is_warm(tmp_path: Path) -> None:
    kept = CacheFile(tmp_path / "cache", "model")
    cold = await served(ScriptedRunner(Scripts(SAYS)), kept, "one", "two")
    warm = await served(ScriptedRunner(Scripts(SAYS)), kept, "two", "one")
    assert warm == cold[::-1]
    # All but the last token, whose logits are needed.
    assert [one.timings.prefilled_tokens for one in warm] == [1, 1]
    assert cold[0].timings.cached_tokens == 0


async def test_what_is_full_after_a_restart_makes_room(tmp_path: Path) -> None:
    kept = CacheFile(tmp_path / "cache", "model")
    texts = [f"{i}" * 60 for i in range(4)]
    says = Scripts(dict.fromkeys(texts, "ok"))

    def runner() -> ScriptedRunner:
        return ScriptedRunner(says, context_length=400)

    await served(runner(), kept, *texts)
    again = await served(runner(), kept, *texts)
    assert [one.text for one in again] == ["ok"] * 4


async def test_the_order_of_use_outlives_a_restart(tmp_path: Path) -> None:
    kept = CacheFile(tmp_path / "cache", "model")
    texts = [letter * 60 for letter in "abcd"]
    runner = ScriptedRunner(Scripts(dict.fromkeys(texts, "ok")), context_length=1000)
    options = EngineOptions(
        1, cached_sequences=6, cached_tokens=100, host_cache_tokens=500, batch_tokens=64
    )
    engine = Engine(runner, options, cache_file=kept)
    engine.start()
    for text in texts:
        await run(engine, job(text))
    engine.stop(grace_s=1)
    warmth = kept.load()
    assert warmth
    cache = PrefixCache(1000)
    cache.restore(warmth.books)
    held = [bytes(t for t in cache.tokens(slot) if t < 256) for slot in cache.retired]
    assert [next(c for c in "abcd" if c * 60 in text.decode()) for text in held] == [*"abcd"]


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    kept = CacheFile(tmp_path / "cache", "model")
    assert kept.load() is None
    kept.save(WARMTH)
    loaded = CacheFile(tmp_path / "cache", "model").load()
    assert loaded is not None
    assert loaded.state.tolist() == WARMTH.state.tolist()
    cache = PrefixCache(10)
    cache.restore(loaded.books)
    assert (cache.tokens(0), cache.tokens(3)) == ([1, 2], [1, 2, 5])
    assert (cache.used_cells, cache.retired) == (3, (0, 3))
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    CacheFile(tmp_path / "cache", "model").save(WARMTH)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o600


def test_cells_of_another_model_are_not_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    CacheFile(tmp_path / "cache", "model").save(WARMTH)
    with caplog.at_level(logging.WARNING):
        assert CacheFile(tmp_path / "cache", "another").load() is None
    assert "another model or other settings" in caplog.text


@pytest.mark.parametrize("at", [len(MAGIC), len(MAGIC) + 40, -1])
def test_a_damaged_file_is_not_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    path = tmp_path / "cache"
    CacheFile(path, "model").save(WARMTH)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert CacheFile(path, "model").load() is None
    path.write_bytes(data[:60])
    assert CacheFile(path, "model").load() is None
    assert caplog.text.count("is damaged") == 2


def test_a_file_of_something_else_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("Dear Ada")
    with pytest.raises(SetupError, match="is not a prefix cache"):
        CacheFile(path, "model")
    with pytest.raises(SetupError, match="there is no folder"):
        CacheFile(tmp_path / "none" / "cache", "model")


def test_where_nothing_can_be_written_the_end_is_clean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    kept = CacheFile(folder / "cache", "model")
    folder.rmdir()
    kept.save(WARMTH)
    assert "was not written" in caplog.text


@pytest.mark.weights
async def test_cells_of_a_real_model_go_on_where_they_were(
    small_model_path: Path, tmp_path: Path
) -> None:
    async def answers() -> list[Output]:
        options = RunnerOptions(context_length=512, batch_tokens=128, sequences=6)
        runner = LlamaRunner(small_model_path, options)
        kept = CacheFile(tmp_path / "cache", runner.identity())
        engine = Engine(runner, EngineOptions(2, 4, cached_tokens=400), cache_file=kept)
        engine.start()
        texts = [b"The capital of France is", b"The capital of Italy is the old city of"]
        prompts = [runner.vocabulary.encode_text(text) for text in texts]
        try:
            return [await run(engine, Job(one, Free(), GREEDY, 8)) for one in prompts]
        finally:
            engine.stop(grace_s=1)

    cold = await answers()
    warm = await answers()
    assert warm == cold
    assert [one.timings.prefilled_tokens for one in warm] == [1, 1]
