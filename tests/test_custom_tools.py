"""Custom tools and defaults that are put in, from the request to the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.replies import answer_to, calls_of
from tests.serving import CHAT, ask, call, parse_stream, rig, started, tool
from tests.wire.builders import custom, grammar, made, result

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
SUMS = 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/\n%ignore " "'
RUN = [custom("run", description="Runs code.")]
APPLY = "x-callwright-apply-defaults"


def say(name: str, text: str) -> str:
    """A call of a custom tool as the model writes it."""
    return call(name, json.dumps({"input": text}, ensure_ascii=False))


async def inputs(
    said: str, tools: list[dict[str, Any]], *, stream: bool, **fields: Any
) -> list[tuple[str, str]]:
    """Names and inputs of the calls of an answer, as the SDK's types read it."""
    body = {**ask("question", tools=tools, **fields), "stream": stream}
    async with started(rig({"question": said})) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    if not stream:
        choice = ChatCompletion.model_validate(answer.json()).choices[0]
        assert choice.finish_reason == "tool_calls"
        found = choice.message.tool_calls or []
        return [(each.custom.name, each.custom.input) for each in found if each.type == "custom"]
    *chunks, done = parse_stream(answer.text)
    assert done.data == "[DONE]"
    calls: list[tuple[str, str]] = []
    for chunk in chunks:
        ChatCompletionChunk.construct(**chunk.data)
        for piece in chunk.data["choices"][0]["delta"].get("tool_calls", []):
            if piece["index"] == len(calls):
                assert set(piece) == {"index", "id", "type", "custom"}
                assert (piece["type"], piece["custom"]["input"]) == ("custom", "")
                calls.append((piece["custom"]["name"], ""))
            else:
                assert set(piece) == {"index", "custom"}
                assert set(piece["custom"]) == {"input"}
                assert piece["custom"]["input"]
                name, text = calls[-1]
                calls[-1] = (name, text + piece["custom"]["input"])
    assert chunks[-1].data["choices"][0]["finish_reason"] == "tool_calls"
    return calls


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("text", ["", 'print("hi")\n', "天気 é 😀 \\ \t \x01", "a" * 200])
async def test_a_free_input_comes_as_it_was_meant(text: str, stream: bool) -> None:
    found = await inputs(say("run", text), RUN, stream=stream, tool_choice="required")
    assert found == [("run", text)]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("format", "text"),
    [
        (grammar("regex", '[a-z]+: "[0-9]{2}"'), 'ab: "42"'),
        (grammar("lark", SUMS), "1 + 2+3"),
        (grammar("lark", "start: /(.|\\n)+/"), 'any "text"\n'),
    ],
)
async def test_an_input_that_its_grammar_accepts_is_written(
    format: dict[str, Any], text: str, stream: bool
) -> None:
    tools = [custom("run", format=format)]
    for choice in ("auto", "required", {"type": "custom", "custom": {"name": "run"}}):
        found = await inputs(say("run", text), tools, stream=stream, tool_choice=choice)
        assert found == [("run", text)]


@PLAIN_AND_STREAMED
async def test_an_input_that_its_grammar_refuses_becomes_one_that_it_accepts(stream: bool) -> None:
    tools = [custom("run", format=grammar("lark", SUMS))]
    said = say("run", "12 + nothing")
    [(name, text)] = await inputs(said, tools, stream=stream, tool_choice="required")
    assert name == "run"
    assert text.startswith("12 + ")
    assert set(text) <= set("0123456789+ ")


@PLAIN_AND_STREAMED
async def test_kinds_of_tools_are_called_side_by_side(stream: bool) -> None:
    tools = [tool("get_weather"), *RUN]
    both = say("run", "x = 1") + "\n" + call("get_weather", '{"city": "Porto"}')
    body = {**ask("question", tools=tools, tool_choice="required"), "stream": stream}
    async with started(rig({"question": both})) as client:
        answer = await client.post(CHAT, json=body)
    if stream:
        deltas = [c.data["choices"][0]["delta"] for c in parse_stream(answer.text)[:-1]]
        types = [p["type"] for d in deltas for p in d.get("tool_calls", []) if "type" in p]
    else:
        types = [c["type"] for c in answer.json()["choices"][0]["message"]["tool_calls"]]
    assert types == ["custom", "function"]


async def test_of_the_allowed_tools_only_those_are_called() -> None:
    only = {"type": "custom", "custom": {"name": "run"}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [only]}}
    tools = [tool("get_weather"), *RUN]
    found = await inputs(say("run", "1"), tools, stream=False, tool_choice=choice)
    assert found == [("run", "1")]


async def test_a_past_call_is_shown_and_its_result_is_found() -> None:
    past = {"id": "abc", "type": "custom", "custom": {"name": "run", "input": 'say "hi"'}}
    messages = [
        {"role": "user", "content": "Run it."},
        made(past),
        result("abc", "it said hi"),
        {"role": "user", "content": "question"},
    ]
    shown = '{"name": "run", "arguments": {"input": "say \\"hi\\""}}'
    body = {**ask("", tools=RUN), "messages": messages}
    made_rig = rig({"question": "It did."})
    async with started(made_rig) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    prompt = made_rig.runner.vocabulary.decode(
        [item.token for items in made_rig.runner.passes for item in items]
    ).decode("utf-8", "replace")
    assert shown in prompt
    assert "it said hi" in prompt
    assert "UNANSWERED" not in prompt


@pytest.mark.parametrize(
    ("format", "why"),
    [
        (grammar("lark", "start: /(/"), "invalid regex"),
        (grammar("lark", "begin: /a/"), "no start rule"),
        (grammar("lark", "start: <|im_end|>"), "special token"),
        (grammar("regex", "(a"), "a group is not closed"),
        (grammar("regex", "a)|(b"), "a group is closed that was not opened"),
    ],
)
async def test_a_bad_grammar_is_refused_where_it_stands(format: dict[str, Any], why: str) -> None:
    tools = [tool("get_weather"), custom("run", format=format)]
    async with started(rig({})) as client:
        answer = await client.post(CHAT, json=ask("question", tools=tools))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "tools[1].custom.format.grammar.definition"
    assert "'run'" in error["message"]
    assert why in error["message"]


# Defaults

UNIT: dict[str, Any] = {"type": "string", "enum": ["C", "F"], "default": "C"}
PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": UNIT,
        "at": {
            "type": "object",
            "properties": {"hour": {"type": "integer"}, "zone": {"type": "string", "default": "Z"}},
        },
    },
    "required": ["city"],
}
WITHOUT = {**PLACE, "properties": {"city": {"type": "string"}, "unit": UNIT}}


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("written", "completed"),
    [
        ('{"city": "Porto"}', '{"city": "Porto", "unit": "C"}'),
        ('{"city": "Porto", "unit": "F"}', '{"city": "Porto", "unit": "F"}'),
        (
            '{"city": "Porto", "at": {"hour": 3}}',
            '{"city": "Porto", "at": {"hour": 3, "zone": "Z"}, "unit": "C"}',
        ),
        ('{"city": "Porto", "at": {}}', '{"city": "Porto", "at": {"zone": "Z"}, "unit": "C"}'),
    ],
)
async def test_defaults_are_put_in_only_where_the_request_asks_for_it(
    written: str, completed: str, stream: bool
) -> None:
    for schema in (PLACE, WITHOUT) if "at" not in written else (PLACE,):
        tools = [tool("get_weather", schema)]
        body = ask("question", tools=tools, tool_choice="required")
        says = {"question": call("get_weather", written)}
        reply = await answer_to(says, body, stream=stream)
        assert calls_of(reply) == [("get_weather", json.loads(written))]
        reply = await answer_to(says, {**body, APPLY: True}, stream=stream)
        [made_call] = reply["choices"][0]["message"]["tool_calls"]
        assert made_call["function"]["arguments"] == completed


async def test_the_model_sees_defaults() -> None:
    made_rig = rig({"question": "hello"})
    async with started(made_rig) as client:
        await client.post(CHAT, json=ask("question", tools=[tool("get_weather", PLACE)]))
    tokens = [item.token for items in made_rig.runner.passes for item in items]
    prompt = made_rig.runner.vocabulary.decode(tokens).decode("utf-8", "replace")
    assert '"default": "C"' in prompt


async def test_a_grammar_over_the_limit_of_the_setting_is_refused_where_it_stands() -> None:
    tools = [*RUN, custom("add", format=grammar("lark", SUMS))]
    async with started(rig({"question": "Hi."}, max_grammar_chars=len(SUMS) - 1)) as client:
        refused = await client.post(CHAT, json=ask("question", tools=tools))
    async with started(rig({"question": "Hi."}, max_grammar_chars=len(SUMS))) as client:
        taken = await client.post(CHAT, json=ask("question", tools=tools))
    assert (refused.status_code, taken.status_code) == (400, 200)
    error = refused.json()["error"]
    assert error["param"] == "tools[1].custom.format.grammar.definition"
    assert str(len(SUMS) - 1) in error["message"]
