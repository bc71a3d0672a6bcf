"""With `reproducible`, logits are the same to the last bit whatever batches they come from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from server.engine.engine import Engine, EngineOptions
from server.engine.runner import BatchItem, LlamaRunner, RunnerOptions
from server.engine.sampler import Logits
from tests.engine.test_runner import QUESTIONS, conversation

pytestmark = pytest.mark.weights

LENGTH, BATCH, SEQUENCES = 150, 128, 12
OTHERS = SEQUENCES - 1


@pytest.fixture(scope="module")
def runner(small_model_path: Path) -> Iterator[LlamaRunner]:
    options = RunnerOptions(
        context_length=1024, batch_tokens=BATCH, sequences=SEQUENCES, reproducible=True
    )
    runner = LlamaRunner(small_model_path, options)
    yield runner
    runner.close()


def text(runner: LlamaRunner, seed: int, length: int) -> list[int]:
    return [int(t) for t in np.random.default_rng(seed).integers(1000, 30_000, length)]


def after(runner: LlamaRunner, tokens: list[int], sizes: list[int]) -> Logits:
    """Logits after the last of `tokens`, decoded in batches of these sizes as sequence 0."""
    runner.cut(0, 0)
    assert sum(sizes) == len(tokens)
    start = 0
    for size in sizes:
        runner.decode(
            [
                BatchItem(tokens[at], at, 0, at == len(tokens) - 1)
                for at in range(start, start + size)
            ]
        )
        start += size
    return runner.logits(sizes[-1] - 1).copy()


@pytest.mark.parametrize("last", [1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 63, 64, 65])
def test_the_shape_of_batches_does_not_matter(runner: LlamaRunner, last: int) -> None:
    runner.clear()
    tokens = text(runner, 1, LENGTH)
    expected = after(runner, tokens, [LENGTH - BATCH, BATCH])
    assert np.array_equal(after(runner, tokens, [LENGTH - BATCH, BATCH - last, last]), expected)


def test_decoded_alone_token_by_token_or_at_once_it_is_the_same(runner: LlamaRunner) -> None:
    runner.clear()
    tokens = text(runner, 2, LENGTH)
    expected = after(runner, tokens, [LENGTH - BATCH, BATCH])
    assert np.array_equal(after(runner, tokens, [1] * LENGTH), expected)


@pytest.mark.parametrize("company", [1, 3, 7, OTHERS])
def test_company_does_not_matter(runner: LlamaRunner, company: int) -> None:
    """Sequences that idle in the cache, and sequences with a token in the same batch."""
    runner.clear()
    tokens = text(runner, 3, LENGTH)
    expected = after(runner, tokens, [LENGTH - BATCH, BATCH])
    runner.clear()
    after(runner, tokens[:-1], [LENGTH - BATCH, BATCH - 1])
    for other in range(1, company + 1):
        for at, token in enumerate(text(runner, 3 + other, 20)):
            runner.decode([BatchItem(token, at, other, False)])
    together = [BatchItem(1000 + other, 20, other, True) for other in range(1, company + 1)]
    runner.decode([*together, BatchItem(tokens[-1], LENGTH - 1, 0, True)])
    assert np.array_equal(runner.logits(company), expected)
    assert not np.array_equal(runner.logits(0), expected)


async def test_answers_are_equal_alone_without_a_cache_and_eight_at_once_with_one(
    runner: LlamaRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "close", lambda: None)
    runner.clear()
    engine = Engine(runner, EngineOptions(1, cached_sequences=0, batch_tokens=BATCH))
    engine.start()
    single = [await conversation(engine, runner, question) for question in QUESTIONS]
    engine.stop(grace_s=0)
    runner.clear()
    options = EngineOptions(8, SEQUENCES - 8, batch_tokens=BATCH, in_order=True)
    engine = Engine(runner, options)
    engine.start()
    together = await asyncio.gather(*(conversation(engine, runner, q) for q in QUESTIONS))
    engine.stop(grace_s=0)
    assert together == single
    assert any(turn.timings.cached_tokens for turns in together for turn in turns)
