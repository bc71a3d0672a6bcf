"""Going on with a list of calls."""

from __future__ import annotations

from typing import Any

import pytest

from prompts.formats import HERMES
from prompts.own_formats import CALL_LIST
from server.surface import surfaces
from tests.serving import CHAT, ask, rig, started, tool

TOOLS = [tool("get_weather"), tool("get_time")]
ONE = '[get_weather({"city": "Porto"})]'
WEATHER = ("get_weather", '{"city": "Porto"}')


def test_what_promises_another_call() -> None:
    assert surfaces(CALL_LIST)[0].goes_on() == (b"),", b",")
    assert surfaces(HERMES)[0].goes_on() == ()


@pytest.mark.parametrize(
    ("catalog", "setting", "fields", "calls"),
    [
        ({}, None, {}, 1),
        ({"signatures": 60.0}, None, {}, 2),
        ({"signatures": 60.0}, None, {"parallel_tool_calls": False}, 1),
        ({"signatures": 60.0}, 0.0, {}, 1),
        ({}, 60.0, {}, 2),
        ({"native": 60.0}, None, {}, 1),
    ],
)
async def test_a_bias_for_more_calls_goes_on_with_the_list(
    catalog: dict[str, float], setting: float | None, fields: dict[str, Any], calls: int
) -> None:
    made = rig({"weather": ONE}, more_calls_biases=catalog, more_calls_bias=setting)
    body = ask("weather", tools=TOOLS, prompt_template="signatures", max_tokens=90, **fields)
    async with started(made) as client:
        reply = (await client.post(CHAT, json=body)).json()
    first, *more = reply["choices"][0]["message"]["tool_calls"]
    assert (first["function"]["name"], first["function"]["arguments"]) == WEATHER
    assert bool(more) == (calls == 2)  # cut, as the model does not know what to say in it
