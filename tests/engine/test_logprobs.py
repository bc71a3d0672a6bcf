"""Every token is told with what the model thought of it, however it came about."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from server.engine.engine import Engine
from server.engine.generation import Generation
from server.engine.logprobs import LEAST, Logits, Logprob, Score, score
from server.engine.sampler import Sampling
from server.engine.sequence import SCORED_TOKENS, EndReason, Job
from server.errors import CallwrightError
from tests.engine.helpers import (
    Free,
    Letters,
    OneOf,
    Output,
    TakesBack,
    alone,
    job,
    rambling,
    run,
    serving,
)
from tests.engine.test_engine_load import random_job
from tests.fakes import WAIT_S, ScriptedRunner, Scripts


@dataclass(frozen=True)
class Told:
    tokens: tuple[int, ...]
    scores: tuple[Score, ...]
    end: EndReason


async def told_by(generation: Generation) -> Told:
    tokens: list[int] = []
    scores: list[Score] = []
    async for update in generation.updates(timeout_s=WAIT_S):
        assert len(update.tokens) == len(update.scores)
        tokens += update.tokens
        scores += update.scores
        if update.end is not None:
            return Told(tuple(tokens), tuple(scores), update.end)
    raise AssertionError("no end was told")


async def scored(engine: Engine, wanted: Job, top: int = 3) -> Told:
    return await told_by(await engine.submit(replace(wanted, top_logprobs=top)))


def expected(make: Callable[[], Job], runner: ScriptedRunner, top: int = 3) -> Told:
    """What the job gives without batches, cells or cache, each token scored by itself."""
    oracle = alone(make(), runner.prefer)
    prompt = make().prompt
    scores = [
        score(runner.prefer([*prompt, *oracle.tokens[:place]]), token, top)
        for place, token in enumerate(oracle.tokens)
    ]
    return Told(tuple(oracle.tokens), tuple(scores), oracle.end)


def plain(make: Callable[[], Job], runner: ScriptedRunner) -> Output:
    return alone(make(), runner.prefer)


# One row of logits


def naive(logits: Logits, token: int) -> float:
    return float(logits[token]) - float(np.logaddexp.reduce(logits.astype(np.float64)))


@pytest.mark.parametrize("seed", range(40))
def test_a_score_is_the_softmax_of_the_logits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, top = int(rng.integers(1, 60)), int(rng.integers(0, 21))
    # Few different numbers, so that some are equal.
    logits = rng.choice(rng.normal(0, 10, 30).astype(np.float32), size)
    token = int(rng.integers(size))
    found = score(logits, token, top)
    assert found.chosen.token == token
    assert found.chosen.logprob == pytest.approx(naive(logits, token), abs=1e-5)
    best = sorted(range(size), key=lambda one: (-logits[one], one))[:top]
    assert [one.token for one in found.top] == best
    for one in found.top:
        assert one.logprob == pytest.approx(naive(logits, one.token), abs=1e-5)


def test_what_the_model_rules_out_has_a_finite_number() -> None:
    logits = np.array([0, -np.inf, 0], np.float32)
    found = score(logits, 1, 1)
    assert found.chosen == Logprob(1, LEAST)
    assert found.top[0].logprob == pytest.approx(float(np.log(0.5)))


def test_huge_logits_do_not_overflow() -> None:
    assert score(np.array([3e38, 0], np.float32), 0, 0).chosen.logprob == 0


# Whole answers


@pytest.mark.parametrize(
    "make",
    [
        lambda: job("q", Free()),
        lambda: job("q", OneOf("call: abc!", "call: xyz!")),  # forced at both ends
        lambda: job("q", OneOf("the only one")),  # nothing is sampled
        lambda: job("q", OneOf("call: abc!", "call: xyz!"), max_tokens=8),  # cut in forced text
        lambda: job("q", OneOf("call: abc!", "call: xyz!"), max_tokens=1),
        lambda: job("q", OneOf("x" * 100 + "1" + "y" * 100, "x" * 100 + "2"), max_tokens=300),
        lambda: job("q", TakesBack("a", 1), max_tokens=30),
        lambda: job("q", Letters(), max_tokens=30, sampling=Sampling(seed=3, temperature=1.5)),
        lambda: job(
            "q", max_tokens=30, sampling=Sampling(temperature=0, logit_bias={101: 50, 100: -100})
        ),
    ],
)
@pytest.mark.parametrize("draft_tokens", [0, 4])
async def test_tokens_have_the_models_own_probabilities(
    make: Callable[[], Job], draft_tokens: int
) -> None:
    runner = ScriptedRunner(rambling, context_length=600)
    with serving(runner, draft_tokens=draft_tokens) as engine:
        told = await scored(engine, make())
    assert told == expected(make, runner)
    assert told.scores


async def test_what_is_taken_back_leaves_no_score() -> None:
    def make() -> Job:
        return job("q", TakesBack("bad", 3))

    runner = ScriptedRunner(Scripts({"q": "one bad two"}))
    with serving(runner) as engine:
        told = await scored(engine, make())
    assert told == expected(make, runner)
    assert told.tokens[4:7] != tuple(b"bad")


async def test_it_costs_nothing_where_it_is_not_asked_for() -> None:
    runner = ScriptedRunner(rambling)
    constraint = "call: abc!", "call: xyz!"
    with serving(runner) as engine:
        await run(engine, job("q", OneOf(*constraint)))
        plain = [item.wants_logits for items in runner.passes for item in items]
        assert sum(plain) == 1
        await scored(engine, job("r", OneOf(*constraint)))
    assert len(runner.passes) == 3  # one more, for the end that is forced


async def test_rows_of_logits_are_bounded() -> None:
    runner = ScriptedRunner(rambling, context_length=600)
    with serving(runner) as engine:
        await scored(engine, job("q", OneOf("x" * 200), max_tokens=300))
    wanted = [sum(item.wants_logits for item in items) for items in runner.passes]
    assert max(wanted) <= SCORED_TOKENS + 1
    assert sum(wanted) >= 200


async def test_the_same_question_again_is_scored_again() -> None:
    """Its cells are there, but their logits are not."""

    def make() -> Job:
        return job("q", OneOf("call: abc!", "call: xyz!"))

    runner = ScriptedRunner(rambling)
    with serving(runner) as engine:
        for _ in range(3):
            assert await scored(engine, make()) == expected(make, runner)


async def test_paused_answers_keep_their_scores() -> None:
    runner = ScriptedRunner(rambling, context_length=200)

    def make(number: int) -> Callable[[], Job]:
        texts = "z" * 50 + "1" + "a" * 20, "z" * 50 + "2" + "b" * 20
        return lambda: job(
            f"{number % 2}?", OneOf(*texts) if number % 2 else Letters(), max_tokens=60
        )

    with serving(runner) as engine:
        told = await asyncio.gather(*(scored(engine, make(number)()) for number in range(5)))
    assert told == [expected(make(number), runner) for number in range(5)]


@pytest.mark.parametrize("seed", range(3))
async def test_many_at_once(seed: int) -> None:
    rng = random.Random(seed)
    makes = [random_job(rng) for _ in range(9)]
    runner = ScriptedRunner(rambling, context_length=rng.choice([200, 300, 1000]))

    async def one(make: Callable[[], Job], asks: bool) -> None:
        try:
            told = await (scored if asks else run)(engine, make())
        except CallwrightError:
            with pytest.raises(CallwrightError):
                alone(make(), runner.prefer)
            return
        assert told == (expected if asks else plain)(make, runner)

    with serving(runner, max_sequences=rng.choice([1, 3, 6]), draft_tokens=4) as engine:
        await asyncio.gather(*(one(make, place % 3 > 0) for place, make in enumerate(makes)))


async def test_tokens_that_are_scored_are_not_drafted() -> None:
    """A wrong draft would lie where the forced end of the answer is scored."""

    class Drafted(OneOf):
        def likely(self, limit: int) -> list[int]:
            return list(b"ue"[:limit])

    texts = ("blue sky", "black night")

    def runner() -> ScriptedRunner:
        return ScriptedRunner(Scripts({"colour": "black night"}))

    made = runner()
    with serving(made, draft_tokens=2) as engine:
        told = await scored(engine, job("colour", Drafted(*texts)))
    assert told == expected(lambda: job("colour", OneOf(*texts)), runner())
