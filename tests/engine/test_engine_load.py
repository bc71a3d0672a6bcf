"""Many requests at once: whatever they share and however they end, each gets its own answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from server.engine.engine import Engine
from server.engine.sampler import Sampling
from server.engine.sequence import Job
from server.engine.token_constraint import TokenConstraint
from server.errors import CallwrightError
from tests.engine.helpers import (
    Fails,
    Free,
    Letters,
    OneOf,
    TakesBack,
    alone,
    job,
    output,
    rambling,
    run,
    serving,
)
from tests.fakes import Gate, ScriptedRunner, Scripts


async def test_eight_at_once_get_their_own_answers() -> None:
    says = {f"question {i}": f"answer {i} " * (i + 1) for i in range(8)}
    gate = Gate()
    runner = ScriptedRunner(Scripts(says), sequences=12, context_length=2000, gate=gate)
    with serving(runner, max_sequences=8) as engine:
        running = [asyncio.ensure_future(run(engine, job(question))) for question in says]
        await asyncio.sleep(0)  # all of them are submitted before the first pass
        gate.open()
        told = await asyncio.gather(*running)
    assert [one.text for one in told] == list(says.values())
    # They shared passes: alone, each would have needed one per token.
    assert len(runner.passes) < sum(one.timings.forward_passes for one in told) / 2


async def test_they_are_served_in_order_of_arrival() -> None:
    gate = Gate()
    runner = ScriptedRunner(Scripts({"q": "abc"}), gate=gate)
    order: list[int] = []

    async def ask(number: int) -> None:
        await run(engine, job("q"))
        order.append(number)

    with serving(runner, max_sequences=1) as engine:
        asked = [asyncio.create_task(ask(number)) for number in range(6)]
        await asyncio.to_thread(gate.wait, 1)
        gate.open()
        await asyncio.gather(*asked)
    assert order == list(range(6))


async def test_a_long_prefill_does_not_stall_a_stream() -> None:
    gate = Gate(allowed=3)
    runner = ScriptedRunner(rambling, gate=gate, context_length=2000, batch_tokens=256)
    with serving(runner) as engine:
        stream = await engine.submit(job("q", Letters(), max_tokens=40))
        await asyncio.to_thread(gate.wait, 4)
        long = asyncio.create_task(engine.submit(job("x" * 600, max_tokens=1)))
        await asyncio.sleep(0)
        gate.open()
        await output(stream)
        await output(await long)
    slot = runner.passes[0][0].sequence_id
    mixed = [items for items in runner.passes if {item.sequence_id for item in items} > {slot}]
    assert len(mixed) > 5
    assert max(len(items) for items in mixed) == 1 + 64


async def test_paused_and_resumed_answers_are_the_same() -> None:
    """Four long answers in cells for two and a half: the youngest have to wait and start over."""
    runner = ScriptedRunner(rambling, context_length=200)
    sampling = Sampling(seed=5, temperature=0.8)

    def one(number: int) -> Job:
        return job(f"{number}?", Letters(), max_tokens=60, sampling=sampling)

    with serving(runner) as engine:
        told = await asyncio.gather(*(run(engine, one(number)) for number in range(4)))
    assert told == [alone(one(number), runner.prefer) for number in range(4)]
    resumed = [one for one in told if one.timings.prefilled_tokens > len(job("0?").prompt)]
    assert 0 < len(resumed) < 4
    # What was computed twice was asked for once.
    assert {one.timings.prompt_tokens for one in told} == {len(job("0?").prompt)}


async def test_load_is_a_snapshot() -> None:
    gate = Gate()
    runner = ScriptedRunner(Scripts({"q": "abc"}), gate=gate)
    with serving(runner, max_sequences=2) as engine:
        assert engine.load.cells == runner.context_length
        asked = [asyncio.create_task(run(engine, job("q"))) for _ in range(5)]
        await asyncio.to_thread(gate.wait, 1)
        gate.allow(1)
        await asyncio.to_thread(gate.wait, 2)
        load = engine.load
        assert (load.running, load.waiting, load.used_cells > 0) == (2, 3, True)
        gate.open()
        await asyncio.gather(*asked)
        assert (engine.load.running, engine.load.waiting) == (0, 0)


Make = Callable[[], Job]


def random_job(rng: random.Random) -> Make:
    """A job that can be made again: its prompt, limits and constraint come from `rng`, now."""
    stem = rng.choice(["", "the same beginning ", "the same beginning as before "])
    text = stem + "".join(rng.choices("abc ", k=rng.randrange(30)))
    max_tokens = rng.randrange(1, 40)
    sampling = Sampling(
        temperature=rng.choice([0, 0.7, 1.5]),
        top_k=rng.choice([0, 0, 20]),
        seed=rng.randrange(100),
        frequency_penalty=rng.choice([0, 0.5]),
    )
    options = ["".join(rng.choices("ab", k=rng.randrange(1, 12))) for _ in range(4)]
    constraint: Callable[[], TokenConstraint] = rng.choice(
        [
            Free,
            Letters,
            lambda: OneOf(*options),
            lambda: OneOf(*(f"call: {option}, end" for option in options)),
            lambda: TakesBack(chr(97 + max_tokens % 26), back=1),
            lambda: Fails("accept", after=max_tokens // 2),
        ]
    )
    return lambda: job(text, constraint(), max_tokens=max_tokens, sampling=sampling)


async def ask(engine: Engine, make: Make, runner: ScriptedRunner, rng: random.Random) -> str:
    """Run a job, or leave it at some point; say what came of it."""
    await asyncio.sleep(rng.random() * 0.05)
    patience = rng.choice([None, None, None, 0.0, 0.002, 0.01])
    asking = asyncio.create_task(run(engine, make()))
    if patience is not None:
        await asyncio.sleep(patience)
        asking.cancel()
    try:
        told = await asking
    except asyncio.CancelledError:
        return "left"
    except CallwrightError:
        with pytest.raises(CallwrightError):
            alone(make(), runner.prefer)
        return "failed"
    assert told == alone(make(), runner.prefer)
    return "answered"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("context_length", [150, 600])
@pytest.mark.parametrize("host_cache_tokens", [0, 1000, 100_000])
async def test_random_requests_that_come_and_go(
    seed: int, context_length: int, host_cache_tokens: int
) -> None:
    rng = random.Random(seed)
    runner = ScriptedRunner(rambling, context_length=context_length, batch_tokens=32)
    with serving(
        runner,
        max_sequences=5,
        queue_length=200,
        cached_tokens=100,
        host_cache_tokens=host_cache_tokens,
    ) as engine:
        asked = [
            ask(engine, random_job(rng), runner, random.Random(rng.random())) for _ in range(100)
        ]
        outcomes = await asyncio.gather(*asked)
    assert min(outcomes.count("answered"), outcomes.count("left")) > 10
