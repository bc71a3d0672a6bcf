"""Drafts change how many passes an answer takes, never the answer."""

from __future__ import annotations

import asyncio
import random

import pytest

from server.engine.sampler import Sampling
from tests.engine.helpers import Free, OneOf, Output, TakesBack, alone, job, rambling, run, serving
from tests.fakes import Gate, ScriptedRunner, Scripts


class Guesses(Free):
    """Guesses from what the answer will be; each token is wrong with some probability."""

    def __init__(self, answer: str, wrong: float = 0.0) -> None:
        self._answer = answer.encode()
        self._wrong = wrong
        self._random = random.Random(7)
        self._said = 0

    def accept(self, token: int) -> None:
        self._said += 1

    def likely(self, limit: int) -> list[int]:
        guess = self._answer[self._said : self._said + limit]
        return [ord("#") if self._random.random() < self._wrong else token for token in guess]


def scripted(says: dict[str, str]) -> ScriptedRunner:
    return ScriptedRunner(Scripts(says))


async def test_right_guesses_save_passes() -> None:
    runner = scripted({"weather": "It rains."})
    with serving(runner, draft_tokens=4) as engine:
        told = await run(engine, job("weather?", Guesses("It rains.")))
    assert (told.text, told.end) == ("It rains.", "stop")
    # With the prompt "It r" and one more; then "ins." and the end.
    assert len(runner.passes) == 2
    assert (told.timings.drafted_tokens, told.timings.accepted_tokens) == (8, 8)
    assert told.timings.forward_passes == 2


async def test_wrong_guesses_cost_nothing_but_their_cells() -> None:
    runner = scripted({"weather": "It rains."})
    with serving(runner, draft_tokens=4) as engine:
        told = await run(engine, job("weather?", Guesses("It rains.", wrong=1.0)))
    assert (told.text, told.end) == ("It rains.", "stop")
    assert len(runner.passes) == 1 + len("It rains.")
    assert told.timings.accepted_tokens == 0


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("wrong", [0.0, 0.3, 0.7])
async def test_the_answer_is_the_same_with_and_without(wrong: float, temperature: float) -> None:
    sampling = Sampling(temperature=temperature, seed=11)
    for text in ("one", "two", "three", "four"):
        runner = ScriptedRunner(rambling)
        plain = alone(job(text, sampling=sampling, max_tokens=40), runner.prefer)
        with serving(runner, draft_tokens=3) as engine:
            told = await run(
                engine, job(text, Guesses(plain.text, wrong), sampling=sampling, max_tokens=40)
            )
        assert told == plain


async def test_a_draft_stops_at_the_token_limit() -> None:
    runner = scripted({"count": "123456789"})
    with serving(runner, draft_tokens=8) as engine:
        told = await run(engine, job("count", Guesses("123456789"), max_tokens=4))
    assert (told.text, told.end) == ("1234", "length")


async def test_what_is_taken_back_is_generated_anew_also_out_of_a_draft() -> None:
    class Both(TakesBack):
        def likely(self, limit: int) -> list[int]:
            return list(b"abcdef"[len(self._said) :][:limit])

    plain = alone(job("letters", Both("cd", 2), max_tokens=20), scripted({"": "abcdef"}).prefer)
    runner = scripted({"letters": "abcdef"})
    with serving(runner, draft_tokens=5) as engine:
        told = await run(engine, job("letters", Both("cd", 2), max_tokens=20))
    assert told == plain


async def test_forced_tokens_after_a_confirmed_one_may_go_beyond_the_draft() -> None:
    class Drafted(OneOf):
        def likely(self, limit: int) -> list[int]:
            return list(b"lue"[:limit])

    says = "blue sky and sea"
    texts = (says, "black night", "brown bear")
    runner = scripted({"colour": says})
    with serving(runner, draft_tokens=2) as engine:
        told = await run(engine, job("colour", Drafted(*texts)))
    assert (told.text, told.end) == (says, "stop")


async def test_many_sequences_run_without_drafts() -> None:
    answers = {f"q{i}.": f"answer number {i}" for i in range(4)}
    gate = Gate()
    runner = ScriptedRunner(Scripts(answers), gate=gate)
    with serving(runner, draft_tokens=4) as engine:
        running = [
            asyncio.ensure_future(run(engine, job(key, Guesses(text))))
            for key, text in answers.items()
        ]
        await asyncio.sleep(0)  # all four are submitted before the first pass is let through
        gate.open()
        told: list[Output] = await asyncio.gather(*running)
    assert [one.text for one in told] == list(answers.values())
    # As long as all four run, a pass has one token of each.
    decodes = [items for items in runner.passes if all(item.wants_logits for item in items)]
    full = [items for items in decodes if len({item.sequence_id for item in items}) == 4]
    assert full
    assert all(len(items) == 4 for items in full)
