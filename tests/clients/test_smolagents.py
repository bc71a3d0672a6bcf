"""smolagents: an agent that calls tools, with its model of OpenAI-compatible servers."""

from __future__ import annotations

from typing import Any

import pytest
from smolagents import OpenAIModel, Tool, ToolCallingAgent
from smolagents.memory import ActionStep

from tests.clients.conftest import Served
from tests.clients.weather import DESCRIPTION, NAME, QUESTION, TIMEOUT_S, Weather


def make_tool(weather: Weather) -> Tool:
    class GetWeather(Tool):
        name = NAME
        description = DESCRIPTION
        inputs = {  # noqa: RUF012 (the base class declares it so)
            "city": {"type": "string", "description": "Name of the city."},
            "unit": {"type": "string", "description": "Unit.", "enum": ["C", "F"]},
        }
        output_type = "string"

        def forward(self, city: str, unit: Any) -> str:
            return weather.answer(city, unit)

    return GetWeather()


@pytest.mark.parametrize("stream", [False, True])
def test_the_loop(served: Served, weather: Weather, stream: bool) -> None:
    """It demands a call in every step; after the last step it asks for the answer without tools."""
    model = OpenAIModel(
        served.model,
        api_base=served.base_url,
        api_key="none",
        client_kwargs={"timeout": TIMEOUT_S, "max_retries": 0},
        temperature=0,
        max_tokens=100,
    )
    agent = ToolCallingAgent(
        [make_tool(weather)], model, max_steps=1, stream_outputs=stream, verbosity_level=0
    )
    del agent.tools["final_answer"]  # so that the step can only be the weather
    answer = agent.run(QUESTION)
    step = agent.memory.steps[1]
    assert isinstance(step, ActionStep)
    assert step.error is None
    assert step.tool_calls
    assert step.tool_calls[0].name == NAME
    assert "Error in generating" not in str(answer)
    weather.check(answer)
