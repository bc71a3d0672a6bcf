"""How much likelier the tools make what the user asks, found out before the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server.affinity import MOST_WORDS, last_words
from server.config import Settings
from tests.fakes import IM_END, Gate, NextToken, Scripts, byte_vocabulary
from tests.replies import calls_of
from tests.serving import CHAT, ask, call, rig, started, tool

VOCABULARY = byte_vocabulary()
WEATHER = call("get_weather", '{"city": "Porto"}')
TOOLS = [tool("get_weather")]
QUESTION = "Porto weather"
ANSWER = Scripts({QUESTION: WEATHER, "poem": WEATHER, "more": WEATHER})


def foretelling(text: str, *, only_with: str = "get_weather") -> NextToken:
    """A model that foresees `text` in the user's turn where `only_with` stands in the prompt."""

    def say(tokens: tuple[int, ...]) -> int:
        so_far = VOCABULARY.decode(list(tokens)).decode("utf-8", "replace")
        _, turn, said = so_far.rpartition("<|im_start|>user\n")
        if "<|im_start|>assistant\n" in said or not turn:
            return ANSWER(tokens)
        if only_with in so_far and text.startswith(said) and said != text:
            return text[len(said)].encode()[0]
        return IM_END if said == text else ord("#")

    return say


def test_the_last_words_begin_where_the_prompts_differ() -> None:
    assert last_words([1, 2, 3, 4, 5], [1, 2, 5]) == [3, 4, 5]
    assert last_words([1, 2], [1, 2]) == []


async def answered(text: str, **values: Any) -> dict[str, Any]:
    made = rig(foretelling(QUESTION), **values)
    body = ask(text, tools=TOOLS, include_timings=True, prompt_template="chatml", max_tokens=60)
    async with started(made) as client:
        reply = await client.post(CHAT, json=body)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def test_what_the_tools_foretell_counts_for_a_call() -> None:
    for_them, another = [
        (await answered(text, affinity_weight=0.1))["timings"]["fit_margin"]
        for text in (QUESTION, "poem, please.")
    ]
    assert for_them > 0.5 > another > -0.5


@pytest.mark.parametrize(("text", "calls"), [(QUESTION, 1), ("poem, please.", 0)])
async def test_with_a_bias_it_decides(text: str, calls: int) -> None:
    reply = await answered(text, affinity_weight=1, tool_call_bias=-20)
    assert len(calls_of(reply)) == calls


@pytest.mark.parametrize(
    ("catalog", "setting", "measured"),
    [({}, None, False), ({"chatml": 0.1}, None, True), ({"native": 0.1}, None, False),
     ({"chatml": 0.1}, 0, False), ({}, 0.1, True)],
)  # fmt: skip
async def test_the_setting_counts_then_the_catalog(
    catalog: dict[str, float], setting: float | None, measured: bool
) -> None:
    reply = await answered(QUESTION, affinity_weights=catalog, affinity_weight=setting)
    assert (reply["timings"]["fit_margin"] != 0) is measured


async def test_after_a_result_the_measured_bias_does_not_hold_either() -> None:
    made = rig(foretelling(QUESTION), affinity_weights={"chatml": 1}, call_biases={"chatml": -50})
    history = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get_weather",
                                                         "arguments": '{"city": "Porto"}'}}]},
        {"role": "tool", "tool_call_id": "a", "content": "sun"},
    ]  # fmt: skip
    body = ask("", tools=TOOLS, prompt_template="chatml") | {"messages": history}
    async with started(made) as client:
        reply = (await client.post(CHAT, json=body)).json()
    assert len(calls_of(reply)) == 1


async def test_what_it_took_is_in_the_timings() -> None:
    plain = await answered(QUESTION, affinity_weight=0)
    asked = await answered(QUESTION, affinity_weight=0.1)
    assert asked["timings"]["cached_tokens"] == plain["timings"]["cached_tokens"] == 0
    assert asked["timings"]["prefilled_tokens"] > plain["timings"]["prefilled_tokens"]
    assert asked["timings"]["forward_passes"] > plain["timings"]["forward_passes"]
    assert asked["usage"] == plain["usage"]
    assert asked["timings"]["forced_tokens"] == plain["timings"]["forced_tokens"]


async def test_long_words_are_scored_in_part() -> None:
    reply = await answered("more " * MOST_WORDS, affinity_weight=0.1)
    assert reply["timings"]["fit_margin"] != 0


def test_it_is_never_against_the_tools() -> None:
    with pytest.raises(ValueError, match="affinity_weight"):
        Settings(affinity_weight=-1)


@pytest.mark.parametrize(("setting", "calls"), [(None, 0), (0, 1)])
async def test_without_it_the_bias_that_was_measured_with_it_does_not_hold(
    setting: float | None, calls: int
) -> None:
    values = {"affinity_weights": {"chatml": 0.001}, "call_biases": {"chatml": -50}}
    reply = await answered(QUESTION, affinity_weight=setting, **values)
    assert len(calls_of(reply)) == calls


async def test_it_takes_one_place_in_the_queue() -> None:
    gate = Gate()
    made = rig(
        foretelling(QUESTION), affinity_weight=0.1, queue_length=3, max_sequences=1, gate=gate
    )
    body = ask(QUESTION, tools=TOOLS, prompt_template="chatml", max_tokens=60)
    async with started(made) as client:
        asked = [asyncio.create_task(client.post(CHAT, json=body)) for _ in range(4)]
        await asyncio.to_thread(gate.wait, 1)
        await asyncio.sleep(0.2)  # for the others to come, while the first one is in its pass
        gate.open()
        replies = await asyncio.gather(*asked)
    assert [reply.status_code for reply in replies] == [200] * 4
