"""Several choices of one prompt: `n`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server.engine import sequence
from server.engine.sampler import Logits, Mask, Sampler, Sampling
from tests.fakes import Gate
from tests.replies import answer_to, calls_of
from tests.serving import CHAT, ask, call, live, rig, soon, started, tool, wait_until
from tests.test_transport import asking, left

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
TEXT = "Once upon a time there was a server."
WEATHER = call("get_weather", '{"city": "Porto"}')


def texts_of(reply: dict[str, Any]) -> list[str]:
    return [choice["message"]["content"] for choice in reply["choices"]]


@PLAIN_AND_STREAMED
async def test_choices_of_one_prompt(stream: bool) -> None:
    one = await answer_to({"q": TEXT}, ask("q"), stream=stream)
    three = await answer_to({"q": TEXT}, ask("q", n=3), stream=stream)
    assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
    assert texts_of(three) == [TEXT] * 3
    assert {choice["finish_reason"] for choice in three["choices"]} == {"stop"}
    # The prompt counts once, as it was read once.
    assert three["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert three["usage"]["completion_tokens"] == 3 * one["usage"]["completion_tokens"]
    assert three["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_the_prompt_is_prefilled_once() -> None:
    made = rig({"question": "Hi."})
    async with started(made) as client:
        answer = await client.post(CHAT, json=ask("question " * 20, n=4))
    decoded = sum(len(items) for items in made.runner.passes)
    usage = answer.json()["usage"]
    # The last token of the prompt has to be read by each, and every token that was generated.
    assert decoded <= usage["prompt_tokens"] + 3 + usage["completion_tokens"] + 4
    assert decoded < 2 * usage["prompt_tokens"]


@PLAIN_AND_STREAMED
async def test_each_choice_has_calls_of_its_own(stream: bool) -> None:
    body = ask("q", n=2, tools=[tool("get_weather")], tool_choice="required")
    reply = await answer_to({"q": WEATHER}, body, stream=stream)
    ids = [choice["message"]["tool_calls"][0]["id"] for choice in reply["choices"]]
    assert len(set(ids)) == 2
    for choice in reply["choices"]:
        assert calls_of({"choices": [choice]}) == [("get_weather", {"city": "Porto"})]
        assert choice["finish_reason"] == "tool_calls"


async def test_seeds_of_choices_follow_from_the_seed() -> None:
    body = ask("q", temperature=1.9, max_tokens=12)

    async def texts(**fields: Any) -> list[str]:
        return texts_of(await answer_to({"q": TEXT}, {**body, **fields}))

    three = await texts(n=3, seed=7)
    assert await texts(n=3, seed=7) == three
    assert await texts(n=2, seed=7) == three[:2]
    assert await texts(seed=7) == three[:1]
    assert len(set(three)) == 3
    assert await texts(n=3, seed=8) != three


def test_the_seed_of_a_choice() -> None:
    sampling = Sampling(seed=7)
    seeds = [sampling.of_choice(index).seed for index in range(5)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 5
    assert Sampling(seed=8).of_choice(1).seed not in seeds
    assert Sampling().of_choice(1) == Sampling()
    assert Sampling(seed=2**64 - 1).of_choice(1).seed is not None


async def test_chunks_of_choices_are_interleaved() -> None:
    gate = Gate()
    made = rig({"q": TEXT}, gate=gate)
    async with started(made) as client:
        asked = asyncio.create_task(client.post(CHAT, json=ask("q", n=2, stream=True)))
        await asyncio.to_thread(gate.wait, 1)
        await soon(lambda: not made.parts.engine._inbox.empty(), "the second one is submitted")
        gate.open()
        answer = await asked
    order = [
        line.split('"index":')[1][0] for line in answer.text.split("\n") if '"content"' in line
    ]
    assert "010" in "".join(order)


async def test_timings_are_of_all_choices() -> None:
    async def timings(n: int) -> dict[str, float]:
        body = ask("q", n=n, include_timings=True)
        reply = await answer_to({"q": TEXT}, body)
        found: dict[str, float] = reply["timings"]
        return found

    one, two = await timings(1), await timings(2)
    assert one.keys() == two.keys()
    assert two["output_tokens"] == 2 * one["output_tokens"]


@PLAIN_AND_STREAMED
async def test_one_choice_that_fails_fails_the_request(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    samplers: list[Sampler] = []

    class SecondFails(Sampler):
        def __init__(self, sampling: Sampling) -> None:
            super().__init__(sampling)
            samplers.append(self)

        def choose(self, logits: Logits, constraint: Mask) -> int:
            if samplers[1:2] == [self]:
                raise RuntimeError("a fault of ours")
            return super().choose(logits, constraint)

    monkeypatch.setattr(sequence, "Sampler", SecondFails)
    made = rig({"q": TEXT}, max_sequences=4)
    async with started(made) as client:
        answer = await client.post(CHAT, json=ask("q", n=3, stream=stream))
        await soon(lambda: made.load == (0, 0), "every choice has ended")
    if stream:
        assert answer.text.rstrip().split("\n")[-2] == "event: error"
    else:
        assert answer.status_code == 500
    assert "a fault of ours" not in answer.text


async def test_a_queue_that_has_no_room_for_all_choices_refuses_them_all() -> None:
    gate = Gate()
    made = rig({"q": TEXT}, gate=gate, queue_length=2, max_sequences=1)
    inbox = made.parts.engine._inbox
    async with started(made) as client:
        first = asyncio.create_task(client.post(CHAT, json=ask("q")))
        await asyncio.to_thread(gate.wait, 1)
        refused = asyncio.create_task(client.post(CHAT, json=ask("q", n=3)))
        passed = 0
        while not refused.done():  # between two passes the engine takes what was submitted
            await soon(lambda: refused.done() or not inbox.empty(), "the next one is submitted")
            passed += 1
            gate.allow(passed)
            await asyncio.to_thread(gate.wait, passed + 1)
        answer = await refused
        gate.open()
        assert (await first).json()["choices"][0]["message"]["content"] == TEXT
        await soon(lambda: made.load == (0, 0), "those that waited are gone")
    assert answer.status_code == 429
    decoded = {item.sequence_id for items in made.runner.passes for item in items}
    assert len(decoded) == 1


@PLAIN_AND_STREAMED
def test_who_leaves_ends_the_work_on_all_choices(stream: bool) -> None:
    gate = Gate(allowed=9)
    with live(rig({"#": "Hi. " * 100}, gate=gate)) as serving:
        with asking(serving, ask("#", n=3, stream=stream)):
            gate.wait(10)
        left(serving)
        gate.open()
        wait_until(lambda: serving.rig.load == (0, 0), "every generation ended")
        assert len(serving.rig.runner.passes) <= 11  # one may have been on its way to the engine
