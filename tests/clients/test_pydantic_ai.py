"""pydantic-ai: an agent with a tool, and its two ways to structured output."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, ModelSettings, NativeOutput, RunContext, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.conftest import Served
from tests.clients.weather import (
    DESCRIPTION,
    FORECAST_TEXT,
    NAME,
    QUESTION,
    TIMEOUT_S,
    Forecast,
    Weather,
)

SETTINGS = ModelSettings(temperature=0, max_tokens=100, timeout=TIMEOUT_S)


class CallThenAnswer(AbstractCapability[None]):
    """The first turn must call a tool, later ones cannot."""

    def get_model_settings(self) -> Any:
        def settings(context: RunContext[None]) -> ModelSettings:
            return ModelSettings(tool_choice="required" if context.run_step <= 1 else "none")

        return settings


@pytest.fixture
def model(served: Served) -> OpenAIChatModel:
    provider = OpenAIProvider(base_url=served.base_url, api_key="none")
    return OpenAIChatModel(served.model, provider=provider)


@pytest.fixture
def agent(model: OpenAIChatModel, weather: Weather) -> Agent[None, str]:
    agent = Agent(model, model_settings=SETTINGS, capabilities=[CallThenAnswer()])
    agent.tool_plain(name=NAME, description=DESCRIPTION)(weather.answer)
    return agent


def check_turns(messages: list[Any]) -> None:
    parts = [part for message in messages for part in message.parts]
    [call] = [part for part in parts if isinstance(part, ToolCallPart)]
    [result] = [part for part in parts if isinstance(part, ToolReturnPart)]
    assert call.tool_name == NAME
    assert call.tool_call_id == result.tool_call_id


async def test_the_loop(agent: Agent[None, str], weather: Weather) -> None:
    done = await agent.run(QUESTION)
    check_turns(done.all_messages())
    weather.check(done.output)
    assert done.usage.requests == 2
    assert done.usage.output_tokens


async def test_the_loop_streamed(agent: Agent[None, str], weather: Weather) -> None:
    async with agent.run_stream(QUESTION) as result:
        deltas = [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
        check_turns(result.all_messages())
    weather.check("".join(deltas))


@pytest.mark.parametrize("kind", [ToolOutput, NativeOutput])
@pytest.mark.parametrize("stream", [False, True])
async def test_structured_output(model: OpenAIChatModel, kind: Any, stream: bool) -> None:
    agent = Agent(model, output_type=kind(Forecast), model_settings=SETTINGS, retries=0)
    if stream:
        async with agent.run_stream(FORECAST_TEXT) as result:
            assert isinstance(await result.get_output(), Forecast)
    else:
        assert isinstance((await agent.run(FORECAST_TEXT)).output, Forecast)
