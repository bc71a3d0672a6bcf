"""Requests with `functions`, as clients sent them before there were tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from tests.replies import answer_to, content_of, reason_of
from tests.serving import CHAT, CITY, ask, call, rig, started

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
FUNCTIONS = [{"name": name, "parameters": CITY} for name in ("get_weather", "get_time")]
WEATHER = call("get_weather", '{"city": "Porto"}')
TIME = call("get_time", '{"city": "Lima"}')


def called(reply: dict[str, Any]) -> tuple[str, Any]:
    made = reply["choices"][0]["message"]["function_call"]
    return made["name"], json.loads(made["arguments"])


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("choice", [None, "auto", {"name": "get_weather"}])
async def test_a_function_is_called(choice: object, stream: bool) -> None:
    body = ask("weather", functions=FUNCTIONS, function_call=choice)
    reply = await answer_to({"weather": f"{WEATHER}\n{TIME}"}, body, stream=stream)
    assert called(reply) == ("get_weather", {"city": "Porto"})
    assert reason_of(reply) == "function_call"
    assert content_of(reply) is None
    assert "tool_calls" not in reply["choices"][0]["message"]
    if not stream:
        ChatCompletion.model_validate(reply, strict=True)


@PLAIN_AND_STREAMED
async def test_a_named_function_is_called_whatever_the_model_wants(stream: bool) -> None:
    body = ask("weather", functions=FUNCTIONS, function_call={"name": "get_time"})
    reply = await answer_to({"weather": WEATHER}, body, stream=stream)
    assert called(reply)[0] == "get_time"


@PLAIN_AND_STREAMED
async def test_text_is_text(stream: bool) -> None:
    for choice in ("auto", "none"):
        body = ask("hello", functions=FUNCTIONS, function_call=choice)
        reply = await answer_to({"hello": "Hi."}, body, stream=stream)
        assert content_of(reply) == "Hi."
        assert "function_call" not in reply["choices"][0]["message"]
        assert reason_of(reply) == "stop"


@PLAIN_AND_STREAMED
async def test_a_cut_call_says_so(stream: bool) -> None:
    body = ask("weather", functions=FUNCTIONS, function_call={"name": "get_weather"}, max_tokens=60)
    reply = await answer_to({"weather": call("get_weather", f'{{"city": "{"x" * 99}"}}')}, body,
                            stream=stream)  # fmt: skip
    assert reason_of(reply) == "length"
    assert reply["choices"][0]["message"]["function_call"]["arguments"].startswith('{"city": "xx')


async def test_the_loop_goes_on_from_call_and_result() -> None:
    body = ask("weather", functions=FUNCTIONS)
    made = rig({"weather": WEATHER, "12 degrees": "It is cold."})
    async with started(made) as client:
        message = (await client.post(CHAT, json=body)).json()["choices"][0]["message"]
        result = {"role": "function", "name": "get_weather", "content": "12 degrees"}
        body["messages"] = [*body["messages"], message, result]
        reply = (await client.post(CHAT, json=body)).json()
    assert content_of(reply) == "It is cold."


async def test_a_schema_that_cannot_be_enforced_is_refused_where_it_stands() -> None:
    wrong = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"pattern": "("}}}}
    async with started(rig({})) as client:
        answer = await client.post(CHAT, json=ask("q", functions=[*FUNCTIONS, wrong]))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "functions[2].parameters"
