"""The straight line from request to answer: which calls and which texts may come out of it.

The model says what a script wants, so that the constraint is what is tested.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.replies import answer_to, calls_of, content_of, reason_of
from tests.serving import CHAT, MODEL, ask, call, rig, started, tool

WEATHER = call("get_weather", '{"city": "Porto"}')
TIME = call("get_time", '{"city": "Lima"}')
TOOLS = [tool("get_weather"), tool("get_time")]
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


# Which calls may be made


@PLAIN_AND_STREAMED
async def test_none_gives_text_although_the_model_wants_to_call(stream: bool) -> None:
    body = ask("weather", tools=TOOLS, tool_choice="none")
    reply = await answer_to({"weather": WEATHER}, body, stream=stream)
    assert calls_of(reply) == []
    assert "<tool_call>" not in (content_of(reply) or "")
    assert reason_of(reply) == "stop"


@PLAIN_AND_STREAMED
async def test_auto_gives_text_where_the_model_wants_text(stream: bool) -> None:
    text = 'Grüße, <b>no call</b>: it said `tool_call` and {"name": 3} — 天気'
    reply = await answer_to({"hello": text}, ask("hello", tools=TOOLS), stream=stream)
    assert content_of(reply) == text
    assert calls_of(reply) == []
    assert reason_of(reply) == "stop"


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    "said",
    [
        WEATHER,
        '```json\n{"name": "get_weather", "arguments": {"city": "Porto"}}\n```',
        '```\n{"name": "get_weather", "arguments": {"city": "Porto"}}\n```',
        '{"name": "get_weather", "arguments": {"city": "Porto"}}',
        '{ "name" : "get_weather", "arguments": {"city": "Porto"}}',
    ],
)
@pytest.mark.parametrize("before", ["", "Let me look.\n\n"])
async def test_auto_takes_a_call_however_it_is_opened(said: str, before: str, stream: bool) -> None:
    reply = await answer_to({"weather": before + said}, ask("weather", tools=TOOLS), stream=stream)
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
    assert (content_of(reply) or "") == before.strip()
    assert reason_of(reply) == "tool_calls"


@PLAIN_AND_STREAMED
async def test_several_calls_in_one_turn(stream: bool) -> None:
    says = {"both": f"{WEATHER}\n{TIME}"}
    reply = await answer_to(says, ask("both", tools=TOOLS), stream=stream)
    assert calls_of(reply) == [("get_weather", {"city": "Porto"}), ("get_time", {"city": "Lima"})]
    assert reason_of(reply) == "tool_calls"


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_parallel_tool_calls_false_ends_after_one(choice: str, stream: bool) -> None:
    body = ask("both", tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    reply = await answer_to({"both": f"{WEATHER}\n{TIME}"}, body, stream=stream)
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
    assert reason_of(reply) == "tool_calls"


@PLAIN_AND_STREAMED
async def test_required_gives_a_valid_call_although_the_model_wants_to_chat(stream: bool) -> None:
    body = ask("hello", tools=TOOLS, tool_choice="required", max_tokens=400)
    reply = await answer_to({"hello": 'Hello "dear" friend.' * 9}, body, stream=stream)
    [(name, arguments), *_] = calls_of(reply)
    assert name in ("get_weather", "get_time")
    assert isinstance(arguments["city"], str)
    assert content_of(reply) is None
    assert reason_of(reply) == "tool_calls"


@PLAIN_AND_STREAMED
async def test_a_named_tool_is_called_once_whatever_the_model_wants(stream: bool) -> None:
    choice = {"type": "function", "function": {"name": "get_time"}}
    body = ask("both", tools=TOOLS, tool_choice=choice)
    reply = await answer_to({"both": f"{WEATHER}\n{WEATHER}"}, body, stream=stream)
    [(name, _)] = calls_of(reply)
    assert name == "get_time"
    assert content_of(reply) is None
    assert reason_of(reply) == "tool_calls"


@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_allowed_tools_are_the_only_ones_called_but_all_are_in_the_prompt(mode: str) -> None:
    allowed = [{"type": "function", "function": {"name": "get_time"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}}
    body = ask("weather", tools=TOOLS)
    free = await answer_to({"weather": WEATHER}, body)
    reply = await answer_to({"weather": WEATHER}, {**body, "tool_choice": choice})
    assert calls_of(free)[0][0] == "get_weather"
    assert {name for name, _ in calls_of(reply)} <= {"get_time"}
    if mode == "required":
        assert calls_of(reply)
    assert reply["usage"]["prompt_tokens"] == free["usage"]["prompt_tokens"]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("name", ["get_time", "nobody", "get_weather2", "get_weath"])
@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "Look:\n```\n{}\n```\nRight?"])
async def test_what_looks_like_a_call_of_another_tool_is_text(
    form: str, name: str, stream: bool
) -> None:
    said = form.replace("{}", f'{{"name": "{name}", "arguments": {{"city": 3}}}}')
    body = ask("weather", tools=[tool("get_weather")])
    reply = await answer_to({"weather": said}, body, stream=stream)
    assert calls_of(reply) == []
    assert content_of(reply) == said
    assert reason_of(reply) == "stop"


async def test_allowed_tools_let_text_be_in_auto() -> None:
    allowed = [{"type": "function", "function": {"name": "get_time"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": allowed}}
    reply = await answer_to({"hello": "Hi."}, ask("hello", tools=TOOLS, tool_choice=choice))
    assert content_of(reply) == "Hi."


async def test_a_tool_without_parameters_is_called_with_an_empty_object() -> None:
    tools = [{"type": "function", "function": {"name": "now"}}]
    says = {"time": call("now", '{"zone": "UTC"}')}
    reply = await answer_to(says, ask("time", tools=tools, tool_choice="required"))
    assert calls_of(reply)[0] == ("now", {})


async def test_an_empty_list_of_tools_is_no_tools() -> None:
    reply = await answer_to({"hello": "Hi."}, ask("hello", tools=[], tool_choice="auto"))
    assert content_of(reply) == "Hi."


# Form of the answer

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
}
AS_POINT = {"type": "json_schema", "json_schema": {"name": "point", "schema": POINT}}


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("said", ['{"x": 3, "y": 4}', '{"x": 3, "z": true}', "Certainly!"])
async def test_a_response_format_is_obeyed(said: str, stream: bool) -> None:
    body = ask("point", response_format=AS_POINT)
    reply = await answer_to({"point": said}, body, stream=stream)
    value = json.loads(content_of(reply) or "")
    assert set(value) == {"x", "y"}
    assert all(type(one) is int for one in value.values())
    assert reason_of(reply) == "stop"
    if said.endswith("4}"):
        assert value == {"x": 3, "y": 4}


async def test_json_object_is_any_object() -> None:
    body = ask("point", response_format={"type": "json_object"})
    reply = await answer_to({"point": '{"any": ["thing"]}'}, body)
    assert json.loads(content_of(reply) or "") == {"any": ["thing"]}


@PLAIN_AND_STREAMED
async def test_with_tools_and_a_response_format_either_may_come(stream: bool) -> None:
    body = {"tools": TOOLS, "response_format": AS_POINT}
    says = {"weather": WEATHER, "point": '{"x": 3, "y": 4}', "chat": "Well, hello."}
    called = await answer_to(says, ask("weather", **body), stream=stream)
    assert calls_of(called) == [("get_weather", {"city": "Porto"})]
    assert content_of(called) is None
    assert reason_of(called) == "tool_calls"
    answered = await answer_to(says, ask("point", **body), stream=stream)
    assert content_of(answered) == '{"x": 3, "y": 4}'
    assert reason_of(answered) == "stop"
    forced = await answer_to(says, ask("chat", **body), stream=stream)
    assert calls_of(forced) or set(json.loads(content_of(forced) or "")) == {"x", "y"}


@pytest.mark.parametrize("choice", ["required", "none"])
async def test_a_response_format_beside_a_decided_tool_choice(choice: str) -> None:
    body = ask("chat", tools=TOOLS, response_format=AS_POINT, tool_choice=choice)
    reply = await answer_to({"chat": 'Well, "hello".' * 9}, {**body, "max_tokens": 400})
    if choice == "required":
        assert calls_of(reply)
        assert content_of(reply) is None
    else:
        assert set(json.loads(content_of(reply) or "")) == {"x", "y"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "no"}}},
         "tool_choice"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools[1].function.name"),
        ({"tools": [tool("f", {"type": "object", "properties": {"a": {"pattern": "("}}})]},
         "tools[0].function.parameters"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
         "response_format.json_schema.schema"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"prompt_template": "nope"}, "prompt_template"),
        ({"prompt_template": "../../etc/passwd"}, "prompt_template"),
        ({"n": 9}, "n"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"typical_p": 0.5}, "typical_p"),
        ({"guided_json": {"pattern": "("}}, "guided_json"),
        ({"structured_outputs": {"json": {"pattern": "("}}}, "structured_outputs.json"),
        ({"response_format": {"type": "json_object", "schema": {"properties": {"a": {
            "pattern": "("}}}}}, "response_format.schema"),
    ],
)  # fmt: skip
@PLAIN_AND_STREAMED
async def test_what_cannot_be_honoured_is_refused_by_name(
    fields: dict[str, Any], param: str, stream: bool
) -> None:
    made = rig({})
    async with started(made) as client:
        answer = await client.post(CHAT, json=ask("hello", stream=stream, **fields))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert made.runner.passes == []


# Whatever a model says, a plain answer and a streamed one are the same


@given(
    said=st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", "\n", WEATHER, TIME, "```json\n", "```", "Hello",
             '{"name": "', "get_weather", '", "arguments": {', "}", "ä", "天", " ", "END",
             '{"name": "nobody", "arguments": {"x": 1}}', '{"name": "get_time2"']
        ),
        max_size=6,
    ).map("".join),
    choice=st.sampled_from(["auto", "required", "none"]),
    limit=st.integers(1, 120),
)  # fmt: skip
@hypothesis_settings(max_examples=30, deadline=None)
async def test_a_stream_adds_up_to_the_plain_answer(said: str, choice: str, limit: int) -> None:
    body = ask("q", tools=TOOLS, tool_choice=choice, max_tokens=limit, stop="END")
    says = {"q": said}
    plain = await answer_to(says, body)
    streamed = await answer_to(says, body, stream=True)
    for reply in (plain, streamed):
        for one in reply["choices"][0]["message"].get("tool_calls", []):
            one["id"] = ""
    assert streamed["choices"] == plain["choices"]
    assert {**streamed["usage"], "prompt_tokens_details": 0} == {
        **plain["usage"],
        "prompt_tokens_details": 0,
    }
    if reason_of(plain) != "length":
        calls = plain["choices"][0]["message"].get("tool_calls", [])
        assert {one["function"]["name"] for one in calls} <= {"get_weather", "get_time"}
        arguments = [json.loads(one["function"]["arguments"]) for one in calls]
        assert all(set(one) == {"city"} for one in arguments)
        assert (reason_of(plain) == "tool_calls") == bool(arguments)
    assert plain["model"] == MODEL
