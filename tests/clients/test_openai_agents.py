"""openai-agents over chat completions, and over responses where the server has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.items import ToolCallItem, ToolCallOutputItem
from openai import AsyncOpenAI

from tests.clients.conftest import Served
from tests.clients.weather import NAME, QUESTION, TIMEOUT_S, Forecast, Unit, Weather

set_tracing_disabled(True)
SETTINGS = ModelSettings(
    temperature=0, max_tokens=100, tool_choice="required", parallel_tool_calls=False
)


@pytest.fixture(params=["chat completions", "responses"])
async def model(
    request: pytest.FixtureRequest, served: Served
) -> AsyncIterator[OpenAIChatCompletionsModel | OpenAIResponsesModel]:
    if request.param == "responses" and not served.has("/v1/responses"):
        pytest.skip("the server has no /v1/responses")
    async with AsyncOpenAI(
        base_url=served.base_url, api_key="none", timeout=TIMEOUT_S, max_retries=0
    ) as client:
        if request.param == "responses":
            yield OpenAIResponsesModel(served.model, client)
        else:
            yield OpenAIChatCompletionsModel(served.model, client)


def make_agent(model: Any, weather: Weather) -> Agent[None]:
    """After the first call the tool is no more, so that the next turn is the answer."""

    @function_tool(name_override=NAME, is_enabled=lambda *_: not weather.asked)
    def get_weather(city: str, unit: Unit) -> str:
        """Current weather of a city."""
        return weather.answer(city, unit)

    return Agent("forecaster", model=model, tools=[get_weather], model_settings=SETTINGS)


def check_items(items: list[Any]) -> None:
    [call] = [item.raw_item for item in items if isinstance(item, ToolCallItem)]
    [result] = [item.raw_item for item in items if isinstance(item, ToolCallOutputItem)]
    assert call.call_id
    assert call.call_id == result["call_id"]


async def test_the_loop(model: Any, weather: Weather) -> None:
    done = await Runner.run(make_agent(model, weather), QUESTION, max_turns=2)
    check_items(done.new_items)
    weather.check(done.final_output)


async def test_the_loop_streamed(model: Any, weather: Weather) -> None:
    running = Runner.run_streamed(make_agent(model, weather), QUESTION, max_turns=2)
    deltas = [
        event.data.delta
        async for event in running.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    check_items(running.new_items)
    assert "".join(deltas) == running.final_output
    weather.check(running.final_output)


async def test_structured_output(model: Any) -> None:
    settings = ModelSettings(temperature=0, max_tokens=100)
    agent = Agent("forecaster", model=model, output_type=Forecast, model_settings=settings)
    done = await Runner.run(agent, "It will rain in Porto tomorrow, at 12 degrees.", max_turns=1)
    assert isinstance(done.final_output, Forecast)
