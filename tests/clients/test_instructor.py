"""instructor: structured output as a call, as JSON, and as JSON by a schema."""

from __future__ import annotations

from typing import Any

import instructor
import pytest
from instructor import Mode
from openai import OpenAI
from pydantic import BaseModel, ConfigDict

from tests.clients.conftest import Served
from tests.clients.weather import FORECAST_TEXT, TIMEOUT_S, Forecast

MESSAGES: Any = [{"role": "user", "content": FORECAST_TEXT}]


class AnyObject(BaseModel):
    """What the mode JSON promises: the schema is then but a text in the prompt."""

    model_config = ConfigDict(extra="allow")


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [(Mode.TOOLS, Forecast), (Mode.JSON_SCHEMA, Forecast), (Mode.JSON, AnyObject)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_structured_output(
    served: Served, mode: Mode, wanted: type[BaseModel], stream: bool
) -> None:
    with OpenAI(base_url=served.base_url, api_key="none", timeout=TIMEOUT_S, max_retries=0) as raw:
        client: Any = instructor.from_openai(raw, mode=mode)
        common: Any = {
            "model": served.model,
            "messages": MESSAGES,
            "response_model": wanted,
            "temperature": 0,
            "max_tokens": 400,
            "max_retries": 0,
        }
        if stream:
            last = list(client.create_partial(**common))[-1]
            found = wanted.model_validate(last.model_dump())
        else:
            found = client.create(**common)
    assert isinstance(found, wanted)
