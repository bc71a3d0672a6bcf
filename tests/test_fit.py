"""Whether a tool fits, asked before the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from prompts.conversation import Conversation, Message
from server.call_bias import CallBias
from server.fit import QUESTION, FitQuestion, asks_for_fit, with_question
from tests.replies import calls_of, content_of
from tests.serving import CHAT, ask, call, rig, started, tool

TOOLS = [tool("get_weather"), tool("get_time")]
WEATHER = call("get_weather", '{"city": "Porto"}')
YES = {"weather": WEATHER, QUESTION: "yes"}
NO = {"weather": WEATHER, QUESTION: "No."}


def test_the_question_stands_behind_the_users_last_words() -> None:
    talk = Conversation((Message("system", "s"), Message("user", "Porto?")))
    asked = with_question(talk)
    assert asked.messages == (talk.messages[0], Message("user", f"Porto?\n\n{QUESTION}"))
    assert asks_for_fit(talk)
    assert not asks_for_fit(Conversation((*talk.messages, Message("assistant", "x"))))
    assert not asks_for_fit(Conversation(()))


def test_what_it_brings_is_added_to_the_bias() -> None:
    logits = np.array([0, 3, 0, 0], np.float32)
    bias = CallBias(np.array([1]), 0.5, fit=-4.0)
    assert bias.weigh(logits)[1] == -0.5
    assert bias.leaning
    assert (bias.leaning.call_margin, bias.leaning.fit_margin) == (-1.0, -4.0)
    bias.accept(0, b"a")
    assert bias.prevented


@pytest.mark.parametrize(
    ("catalog", "setting", "fields", "asked"),
    [
        ([], None, {}, False),
        (["native"], None, {}, True),
        (["native"], None, {"prompt_template": "chatml"}, False),
        (["native"], False, {}, False),
        (["native"], False, {"fit_question": True}, True),
        ([], True, {}, True),
        ([], True, {"fit_question": False}, False),
        ([], None, {"fit_question": True, "tool_choice": "required"}, False),
    ],
)
async def test_the_request_counts_then_the_setting_then_the_catalog(
    catalog: list[str], setting: bool | None, fields: dict[str, Any], asked: bool
) -> None:
    made = rig(NO, fit_questions=catalog, fit_question=setting)
    body = ask("weather", tools=TOOLS, tool_call_bias=-1, include_timings=True, **fields)
    async with started(made) as client:
        reply = (await client.post(CHAT, json=body | {"max_tokens": 99})).json()
    assert bool(calls_of(reply)) is not asked
    assert (reply["timings"].get("fit_margin", 0) < 0) is asked


async def test_a_yes_lets_the_model_call() -> None:
    async with started(rig(YES, fit_question=True)) as client:
        reply = (await client.post(CHAT, json=ask("weather", tools=TOOLS))).json()
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
    assert content_of(reply) is None


async def test_after_a_result_it_is_not_asked() -> None:
    messages = [
        {"role": "user", "content": "Porto?"},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Porto"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "weather: mild"},
    ]
    body = ask("", tools=TOOLS, include_timings=True) | {"messages": messages}
    async with started(rig({"mild": "It is mild."}, fit_question=True)) as client:
        reply = (await client.post(CHAT, json=body)).json()
    assert content_of(reply) == "It is mild."
    assert reply["timings"]["fit_margin"] == 0


async def test_a_question_that_decides_nothing_is_refused_by_name() -> None:
    form = {"type": "json_object"}
    body = ask("weather", tools=TOOLS, response_format=form, fit_question=True)
    async with started(rig(NO, fit_question=True)) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "fit_question"


async def test_question_and_answer_share_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: Any) -> float:
        await asyncio.sleep(0.3)
        return 1.0

    monkeypatch.setattr(FitQuestion, "margin", slow)
    made = rig(YES, fit_question=True, request_timeout_s=0.25)
    async with started(made) as client:
        reply = await client.post(CHAT, json=ask("weather", tools=TOOLS))
    assert reply.status_code == 504
    assert reply.json()["error"]["code"] == "timeout"


async def test_what_the_question_computed_is_not_called_cached() -> None:
    times = []
    for asks in (False, True):
        async with started(rig(YES, fit_question=asks)) as client:
            body = ask("weather", tools=TOOLS, include_timings=True)
            times.append((await client.post(CHAT, json=body)).json()["timings"])
    plain, asked = times
    assert asked["cached_tokens"] == plain["cached_tokens"] == 0
    assert asked["prefilled_tokens"] > plain["prefilled_tokens"]
    assert asked["forward_passes"] > plain["forward_passes"]


async def test_choices_share_what_was_found_out() -> None:
    body = ask("weather", tools=TOOLS, include_timings=True, tool_call_bias=-1, fit_question=True)
    times = []
    for n in (1, 2):
        async with started(rig(YES)) as client:
            times.append((await client.post(CHAT, json=body | {"n": n})).json()["timings"])
    for name in ("call_margin", "fit_margin", "tool_call_bias", "prompt_tokens"):
        assert times[0][name] == times[1][name]
