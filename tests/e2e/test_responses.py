"""`/v1/responses` through the OpenAI SDK, against a really started server with real models."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from jsonschema import validate
from openai.types.responses import Response

from tests.e2e.conftest import Served
from tests.e2e.test_sdk import PLAIN_AND_STREAMED, SCHEMAS

pytestmark = [pytest.mark.weights, pytest.mark.timeout(3600)]

TOOLS: Any = [
    {"type": "function", "name": name, "parameters": parameters, "strict": True}
    for name, parameters in SCHEMAS.items()
]
QUESTION = "What is the weather in Porto?"


def ask(served: Served, given: Any, *, stream: bool, **fields: Any) -> Response:
    fields = {"model": served.model, "input": given, "temperature": 0, **fields}
    fields.setdefault("max_output_tokens", 300)
    if not stream:
        plain: Response = served.client.responses.create(**fields)
        return plain
    with served.client.responses.create(**fields, stream=True) as events:
        *_, last = events
    assert last.type in ("response.completed", "response.incomplete")
    response: Response = last.response
    return response


@PLAIN_AND_STREAMED
def test_the_loop_with_the_server_keeping_the_conversation(served: Served, stream: bool) -> None:
    first = ask(served, QUESTION, stream=stream, tools=TOOLS, tool_choice="required")
    assert first.status == "completed"
    results: list[Any] = []
    for item in first.output:
        assert item.type == "function_call"
        validate(json.loads(item.arguments), SCHEMAS[item.name])
        results.append(
            {"type": "function_call_output", "call_id": item.call_id, "output": "12 degrees, rain"}
        )
    assert results
    fields: Any = {"stream": stream, "tools": TOOLS, "tool_choice": "none", "max_output_tokens": 30}
    last = ask(served, results, previous_response_id=first.id, **fields)
    assert last.output_text
    assert last.usage
    question = {"role": "user", "content": QUESTION}
    again = ask(served, [question, *first.output, *results], store=False, **fields)
    assert again.usage
    assert again.usage.input_tokens == last.usage.input_tokens
    assert again.usage.input_tokens_details.cached_tokens > again.usage.input_tokens // 2
    if served.reproducible:
        assert again.output_text == last.output_text
    assert served.client.responses.retrieve(last.id) == last
    served.client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        ask(served, "And now?", previous_response_id=last.id, stream=stream)


@PLAIN_AND_STREAMED
def test_json_of_a_schema(served: Served, stream: bool) -> None:
    schema = SCHEMAS["get_weather"]
    form: Any = {"format": {"type": "json_schema", "name": "ask", "schema": schema}}
    response = ask(served, QUESTION, stream=stream, text=form)
    validate(json.loads(response.output_text), schema)


def test_a_client_that_leaves_leaves_nothing_behind(served: Served) -> None:
    body = {"model": served.model, "input": QUESTION, "stream": True}
    with httpx.stream("POST", f"{served.url}/v1/responses", json=body, timeout=60) as answer:
        line = next(answer.iter_lines())
    assert line == "event: response.created"
    assert ask(served, QUESTION, stream=False, max_output_tokens=5).status == "incomplete"
