"""How a generation ends other than by its answer: cancelled, failed, refused, or shut down."""

from __future__ import annotations

import asyncio
import threading

import pytest

from server.engine.engine import Engine, EngineOptions
from server.engine.generation import Generation
from server.engine.runner import BatchItem, DecodeFailed, OutOfCells
from server.engine.sequence import Job
from server.errors import Busy, CallwrightError, ConstraintFailed, InvalidRequest, ShuttingDown
from tests.engine.helpers import (
    GREEDY,
    Fails,
    Free,
    job,
    output,
    rambling,
    run,
    serving,
    wait_until_idle,
)
from tests.fakes import Gate, ScriptedRunner, Scripts


def talking(tokens: tuple[int, ...]) -> int:
    """A model that never ends."""
    return ord("a") + len(tokens) % 26


async def arrived(gate: Gate, number: int) -> None:
    await asyncio.to_thread(gate.wait, number)


def tokens_of(runner: ScriptedRunner, letter: str) -> list[BatchItem]:
    """What a runner was given of the prompts that are made of one letter."""
    return [item for items in runner.passes for item in items if item.token == ord(letter)]


async def fails(generation: Generation) -> Exception:
    with pytest.raises(CallwrightError) as raised:
        await output(generation)
    return raised.value


# Cancelled


async def test_cancelled_while_it_decodes() -> None:
    gate = Gate(allowed=3)
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner) as engine:
        generation = await engine.submit(job("q"))
        await arrived(gate, 4)
        generation.cancel()
        gate.open()
        wait_until_idle(engine)
    assert len(runner.passes) == 4  # the one under way was the last


async def test_cancelled_in_its_prefill() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate, batch_tokens=16)
    with serving(runner) as engine:
        generation = await engine.submit(job("Q" * 100))
        await arrived(gate, 1)
        generation.cancel()
        gate.open()
        wait_until_idle(engine)
        assert len(runner.passes) == 1
        assert engine.load.used_cells == 16  # computed, so kept


async def test_cancelled_in_the_queue() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner, max_sequences=1) as engine:
        first = await engine.submit(job("q", max_tokens=3))
        await arrived(gate, 1)
        queued = asyncio.create_task(engine.submit(job("ZZZ")))
        await asyncio.sleep(0)
        gate.allow(1)
        second = await queued
        assert (engine.load.running, engine.load.waiting) == (1, 1)
        second.cancel()
        gate.open()
        assert (await output(first)).end == "length"
    assert tokens_of(runner, "Z") == []
    timings = second.sequence.timings
    assert timings.queue_s > 0 == timings.prefill_s


async def test_cancelled_before_the_engine_has_seen_it() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner) as engine:
        first = await engine.submit(job("q", max_tokens=3))
        await arrived(gate, 1)
        queued = asyncio.create_task(engine.submit(job("ZZZ")))
        await asyncio.sleep(0)
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        gate.open()
        await output(first)
    assert tokens_of(runner, "Z") == []


async def test_cancelled_just_when_the_engine_has_taken_it() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner) as engine:
        queued = asyncio.create_task(engine.submit(job("q")))
        await asyncio.sleep(0)
        gate.wait(1)  # keeps the event loop from seeing that it is queued
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        gate.open()
        wait_until_idle(engine)
    assert len(runner.passes) == 1


async def test_cancelling_one_leaves_the_others_alone() -> None:
    gate = Gate(allowed=2)
    runner = ScriptedRunner(Scripts({"one": "x" * 30, "two": "y" * 30}), gate=gate)
    with serving(runner) as engine:
        one, two = await engine.submit(job("one")), asyncio.create_task(run(engine, job("two")))
        await arrived(gate, 3)
        one.cancel()
        gate.open()
        assert (await two).text == "y" * 30


async def test_cancelling_what_has_ended_does_nothing() -> None:
    with serving(ScriptedRunner(Scripts({"one": "x"}))) as engine:
        generation = await engine.submit(job("one"))
        await output(generation)
        generation.cancel()
        assert (await run(engine, job("one"))).text == "x"


async def test_a_time_limit_counts_from_the_submission() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner) as engine:
        generation = await engine.submit(job("q"))
        with pytest.raises(TimeoutError):
            async for _ in generation.updates(timeout_s=0.05):
                pass
        generation.cancel()
        gate.open()


def test_a_client_whose_event_loop_is_gone_is_cancelled() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner) as engine:
        generation = asyncio.run(engine.submit(job("q", max_tokens=400)))
        gate.open()
        wait_until_idle(engine)
        assert generation.sequence.output_tokens < 400


# Faults


METHODS = ["forced", "allows", "accept", "finished", "held", "take_back", "likely"]


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("method", METHODS)
async def test_a_stuck_grammar_fails_its_request_only(method: str, after: int) -> None:
    runner = ScriptedRunner(Scripts({"one": "x" * 20, "two": "y" * 20}))
    with serving(runner, draft_tokens=2) as engine:
        good = await engine.submit(job("two"))
        bad = await engine.submit(job("one", Fails(method, after)))
        assert isinstance(await fails(bad), ConstraintFailed)
        assert (await output(good)).text == "y" * 20
        assert (await run(engine, job("one"))).text == "x" * 20


@pytest.mark.parametrize("method", METHODS)
async def test_an_unforeseen_fault_is_told_without_its_details(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    runner = ScriptedRunner(Scripts({"one": "x" * 20, "two": "y" * 20}))
    with serving(runner, draft_tokens=2) as engine:
        good = await engine.submit(job("two"))
        bad = await engine.submit(job("one", Fails(method, 1, ValueError("secret"))))
        error = await fails(bad)
        assert (await output(good)).text == "y" * 20
    assert "secret" not in str(error)
    assert "secret" in caplog.text


@pytest.mark.parametrize("failure", [DecodeFailed("llama_decode returned -3"), OutOfCells()])
async def test_a_failed_pass_fails_what_was_running(failure: DecodeFailed | OutOfCells) -> None:
    gate = Gate(allowed=1)
    runner = ScriptedRunner(Scripts({"one": "x" * 9, "two": "y" * 9}), gate=gate)
    with serving(runner, max_sequences=1) as engine:
        running = await engine.submit(job("one"))
        await arrived(gate, 2)
        queued = asyncio.create_task(engine.submit(job("two")))
        await asyncio.sleep(0)
        gate.allow(2)
        waiting = await queued
        await arrived(gate, 3)
        runner.fail_next(failure)
        gate.open()
        assert "model" in str(await fails(running))
        assert (await output(waiting)).text == "y" * 9  # it had no part in it
        again = await run(engine, job("one"))
        assert again.text == "x" * 9


async def test_a_defect_in_a_step_fails_all_and_the_engine_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(allowed=1)
    runner = ScriptedRunner(Scripts({"one": "x" * 9, "two": "y" * 9}), gate=gate)
    with serving(runner, max_sequences=1) as engine:
        generations = [await engine.submit(job("one"))]
        await arrived(gate, 2)
        queued = asyncio.create_task(engine.submit(job("two")))
        await asyncio.sleep(0)
        gate.allow(2)
        generations.append(await queued)
        with monkeypatch.context() as patch:
            patch.setattr(engine._scheduler, "plan", lambda: 1 / 0)
            gate.open()
            for generation in generations:
                assert "engine failed" in str(await fails(generation))
        assert (await run(engine, job("two"))).text == "y" * 9
    assert "ZeroDivisionError" in caplog.text


# Refused


async def test_a_full_queue_refuses() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner, max_sequences=1, queue_length=2) as engine:
        jobs = [asyncio.create_task(engine.submit(job("q", max_tokens=2))) for _ in range(5)]
        await arrived(gate, 1)
        gate.open()
        ended = await asyncio.gather(*jobs, return_exceptions=True)
        accepted = [one for one in ended if isinstance(one, Generation)]
        assert len([one for one in ended if isinstance(one, Busy)]) == 5 - len(accepted)
        assert 2 <= len(accepted) < 5
        for generation in accepted:
            assert (await output(generation)).end == "length"


async def test_who_has_left_takes_no_room_in_the_queue() -> None:
    gate = Gate()
    runner = ScriptedRunner(talking, gate=gate)
    with serving(runner, max_sequences=1, queue_length=1) as engine:
        running = await engine.submit(job("q", max_tokens=4))
        await arrived(gate, 1)
        queued = asyncio.create_task(engine.submit(job("q")))
        await asyncio.sleep(0)
        gate.allow(1)
        leaving = await queued
        await arrived(gate, 2)
        leaving.cancel()
        late = asyncio.create_task(run(engine, job("q", max_tokens=2)))
        await asyncio.sleep(0)
        gate.open()
        assert (await late).end == (await output(running)).end == "length"


async def test_an_empty_prompt_is_refused() -> None:
    with serving(ScriptedRunner(talking)) as engine:
        with pytest.raises(InvalidRequest, match="empty"):
            await engine.submit(Job([], Free(), GREEDY, 10))


# Shut down


def started(runner: ScriptedRunner) -> Engine:
    engine = Engine(runner, EngineOptions(max_sequences=1, cached_sequences=7, batch_tokens=64))
    engine.start()
    return engine


async def stop(engine: Engine, grace_s: float) -> None:
    await asyncio.wait_for(asyncio.to_thread(engine.stop, grace_s), 10)
    assert all(thread.name != "engine" for thread in threading.enumerate())


async def test_stopping_lets_all_finish_within_the_grace() -> None:
    runner = ScriptedRunner(Scripts({"one": "x" * 50, "two": "y" * 50}))
    engine = started(runner)
    generations = [await engine.submit(job(name)) for name in ("one", "two")]
    await stop(engine, grace_s=10)
    assert [(await output(one)).text for one in generations] == ["x" * 50, "y" * 50]
    assert (runner.closed, runner.misuse) == (True, [])


async def test_stopping_fails_the_rest_after_the_grace() -> None:
    gate = Gate(allowed=1)
    runner = ScriptedRunner(talking, gate=gate)
    engine = started(runner)
    running = await engine.submit(job("q"))
    await arrived(gate, 2)
    waiting = asyncio.create_task(engine.submit(job("q")))
    unseen = asyncio.create_task(engine.submit(job("q")))
    await asyncio.sleep(0)
    unseen.cancel()
    stopping = asyncio.create_task(stop(engine, grace_s=0))
    await asyncio.to_thread(engine._stopping.wait, 10)
    gate.open()
    await stopping
    assert isinstance(await fails(running), ShuttingDown)
    with pytest.raises(ShuttingDown):
        await waiting
    assert (runner.closed, runner.misuse) == (True, [])


async def test_stopping_twice_is_stopping_once() -> None:
    runner = ScriptedRunner(talking)
    engine = started(runner)
    await asyncio.gather(stop(engine, 0), stop(engine, 0))
    await stop(engine, 0)
    assert (runner.closed, runner.misuse) == (True, [])


async def test_nothing_is_accepted_after_the_stop() -> None:
    engine = started(ScriptedRunner(talking))
    await stop(engine, grace_s=0)
    with pytest.raises(ShuttingDown):
        await engine.submit(job("q"))


def test_a_submission_that_races_the_stop_is_answered() -> None:
    """Whoever submits while the engine stops gets an answer or a refusal, and never waits."""
    for delay in range(20):
        engine = started(ScriptedRunner(rambling))

        async def submit_all(engine: Engine = engine) -> list[str]:
            async def one() -> str:
                try:
                    return (await run(engine, job("q"))).text
                except ShuttingDown:
                    return "refused"

            return await asyncio.wait_for(asyncio.gather(*(one() for _ in range(8))), 10)

        stopper = threading.Timer(delay / 5000, engine.stop, [0])
        stopper.start()
        answers = asyncio.run(submit_all())
        stopper.join()
        assert len(answers) == 8
