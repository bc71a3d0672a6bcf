"""The one tool that every client offers, and what must hold when it has been called.

What a small model says is not asserted, only what the server promises of it: so the first turn must
call the tool, and the last one cannot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Unit = Literal["C", "F"]

QUESTION = "What is the weather in Porto, in degrees Celsius?"
NAME = "get_weather"
DESCRIPTION = "Current weather of a city."
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["city", "unit"],
}
TOOL = {
    "type": "function",
    "function": {"name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS},
}
FORECAST_TEXT = "It will rain in Porto tomorrow, at 12 degrees."
TIMEOUT_S = 900.0  # for a machine that has much else to do


class Asked(BaseModel):
    """The arguments of the tool. Nothing is converted: they come as the schema has them."""

    model_config = ConfigDict(strict=True, extra="forbid")
    city: str
    unit: Unit


class Forecast(BaseModel):
    """A forecast for one city."""

    city: str
    celsius: int
    sky: Literal["sun", "rain", "snow"]


@dataclass
class Weather:
    """The tool itself; it remembers what it was asked."""

    asked: list[Asked] = field(default_factory=list)

    def answer(self, city: str, unit: Unit) -> str:
        self.asked.append(Asked(city=city, unit=unit))
        return json.dumps({"city": city, "temperature": 12, "unit": unit, "sky": "rain"})

    def run(self, arguments: str) -> str:
        """From the text of a call to the text of its result."""
        given: dict[str, Any] = json.loads(arguments)
        return self.answer(**given)

    def check(self, answer: object) -> None:
        """The tool was called, and a text was made of its result."""
        assert self.asked
        assert isinstance(answer, str)
        assert answer.strip()
