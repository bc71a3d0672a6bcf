"""The OpenAI SDK against a really started server, with real models.

What a small model says is not asserted, only what the server promises of it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import httpx
import openai
import pytest
from jsonschema import validate
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel

from tests.e2e.conftest import Served

pytestmark = [pytest.mark.weights, pytest.mark.timeout(3600)]

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}},
    "required": ["city"],
}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SCHEMAS = {"get_weather": WEATHER, "get_time": CITY}
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current weather of a city.",
            "parameters": WEATHER,
        },
    },
    {
        "type": "function",
        "function": {
            "name": "get_time",
            "description": "Current local time in a city.",
            "parameters": CITY,
        },
    },
]
QUESTION: Any = [{"role": "user", "content": "What is the weather in Porto?"}]
GREETING: Any = [{"role": "user", "content": "Say hello."}]
NAMED: Any = {"type": "function", "function": {"name": "get_time"}}
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


def allowed(mode: Literal["auto", "required"], *names: str) -> Any:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def ask(served: Served, messages: Any, *, stream: bool = False, **fields: Any) -> ChatCompletion:
    """The answer, folded by the SDK itself where it is streamed."""
    fields = {"model": served.model, "messages": messages, "temperature": 0, **fields}
    fields.setdefault("max_tokens", 300)
    if not stream:
        plain: ChatCompletion = served.client.chat.completions.create(**fields)
        return plain
    with served.client.chat.completions.stream(
        **fields, stream_options={"include_usage": True}
    ) as chunks:
        try:
            return chunks.get_final_completion()
        except openai.LengthFinishReasonError as exc:  # a cut answer is an answer here
            return exc.completion


def checked_calls(completion: ChatCompletion) -> list[tuple[str, Any]]:
    """Names and arguments of the calls, each held to its schema; a cut one would be at the end."""
    [choice] = completion.choices
    calls = choice.message.tool_calls or []
    found = []
    for call in calls:
        assert call.type == "function"
        arguments = json.loads(call.function.arguments)
        validate(arguments, SCHEMAS[call.function.name])
        found.append((call.function.name, arguments))
    assert len({call.id for call in calls}) == len(calls)
    assert choice.finish_reason == ("tool_calls" if calls else "stop")
    assert completion.usage
    assert completion.usage.total_tokens == (
        completion.usage.prompt_tokens + completion.usage.completion_tokens
    )
    return found


def as_history(message: ChatCompletionMessage) -> Any:
    return message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})


def wait_until_idle(served: Served) -> None:
    deadline = time.monotonic() + 60
    while (health := httpx.get(f"{served.url}/health").json())["running"]:
        assert time.monotonic() < deadline, health
        time.sleep(0.1)


@PLAIN_AND_STREAMED
def test_the_loop_of_question_call_result_and_final_text(served: Served, stream: bool) -> None:
    first = ask(served, QUESTION, stream=stream, tools=TOOLS, tool_choice="required")
    calls = checked_calls(first)
    assert calls[0] == ("get_weather", {**calls[0][1], "city": "Porto"})
    message = first.choices[0].message
    assert message.content is None
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 12, "sky": "rain"}'}
        for call in message.tool_calls or []
    ]
    history = [*QUESTION, as_history(message), *results]
    last = ask(
        served, history, stream=stream, tools=TOOLS, tool_choice="none", max_tokens=40
    ).choices[0]
    assert last.message.content
    assert not last.message.tool_calls
    assert last.finish_reason in ("stop", "length")


@PLAIN_AND_STREAMED
def test_the_loop_goes_on_in_auto(served: Served, stream: bool) -> None:
    call = {
        "id": "call_from_elsewhere",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Porto"}'},
    }
    history = [
        *QUESTION,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_from_elsewhere", "content": "12 degrees, rain"},
    ]
    last = ask(served, history, stream=stream, tools=TOOLS)
    assert checked_calls(last) or last.choices[0].message.content


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("messages", [QUESTION, GREETING], ids=["question", "greeting"])
@pytest.mark.parametrize(
    ("choice", "names", "least"),
    [
        ("auto", {"get_weather", "get_time"}, 0),
        ("required", {"get_weather", "get_time"}, 1),
        (NAMED, {"get_time"}, 1),
        (allowed("auto", "get_time"), {"get_time"}, 0),
        (allowed("required", "get_time"), {"get_time"}, 1),
        ("none", set(), 0),
    ],
    ids=["auto", "required", "named", "allowed auto", "allowed required", "none"],
)
def test_each_tool_choice(
    served: Served, messages: Any, choice: Any, names: set[str], least: int, stream: bool
) -> None:
    limit = {"max_tokens": 30} if choice == "none" else {}
    answer = ask(served, messages, stream=stream, tools=TOOLS, tool_choice=choice, **limit)
    message = answer.choices[0].message
    if choice == "none":
        assert not message.tool_calls
        assert message.content
        return
    called = checked_calls(answer)
    assert {name for name, _ in called} <= names
    assert len(called) >= least
    if least:
        assert message.content is None
    else:
        assert called or message.content


def test_with_a_seed_a_stream_and_a_plain_answer_are_the_same(served: Served) -> None:
    fields: Any = {"tools": TOOLS, "tool_choice": "required", "seed": 1, "temperature": 1.0}
    plain = ask(served, QUESTION, max_tokens=100, **fields)
    streamed = ask(served, QUESTION, max_tokens=100, stream=True, **fields)
    if served.reproducible:
        assert as_written(plain) == as_written(streamed)
    for answer in (plain, streamed):
        assert answer.choices[0].message.tool_calls
        if answer.choices[0].finish_reason != "length":
            checked_calls(answer)


def as_written(completion: ChatCompletion) -> Any:
    """How it ended, and each call to the letter."""
    [choice] = completion.choices
    calls: Any = choice.message.tool_calls or []
    return choice.finish_reason, [(call.function.name, call.function.arguments) for call in calls]


@PLAIN_AND_STREAMED
def test_parallel_calls_and_one_call_only(served: Served, stream: bool) -> None:
    messages: Any = [
        {
            "role": "system",
            "content": "Call every tool that the question needs, one after another.",
        },
        {"role": "user", "content": "What are the weather and the time in Porto and in Lima?"},
    ]
    fields: Any = {"tools": TOOLS, "tool_choice": "required", "stream": stream}
    many = checked_calls(ask(served, messages, **fields))
    assert len(many) >= 1
    one = checked_calls(ask(served, messages, parallel_tool_calls=False, **fields))
    assert one == many[:1]


@PLAIN_AND_STREAMED
def test_several_calls_and_their_results_in_the_history(served: Served, stream: bool) -> None:
    ids = ("call_1", "call_2")
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps({"city": city})},
        }
        for call_id, city in zip(ids, ("Porto", "Lima"), strict=True)
    ]
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": f"{degrees} degrees"}
        for call_id, degrees in zip(reversed(ids), (20, 12), strict=True)
    ]
    history = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": calls}, *results]
    answer = ask(served, history, stream=stream, tools=TOOLS, tool_choice=NAMED)
    assert [name for name, _ in checked_calls(answer)] == ["get_time"]


# The SDK's helpers


class Answer(BaseModel):
    city: str
    celsius: int
    sky: Literal["sun", "rain", "snow"]


class SetAlarm(BaseModel):
    """Set an alarm."""

    hour: int
    label: Literal["work", "school"]


def test_parse_gives_a_pydantic_model(served: Served) -> None:
    parsed = served.client.chat.completions.parse(
        model=served.model,
        messages=[{"role": "user", "content": "It rains in Porto at 12 degrees."}],
        response_format=Answer,
        temperature=0,
        max_tokens=200,
    )
    assert isinstance(parsed.choices[0].message.parsed, Answer)


def test_parse_gives_the_arguments_of_a_tool_as_a_pydantic_model(served: Served) -> None:
    parsed = served.client.chat.completions.parse(
        model=served.model,
        messages=[{"role": "user", "content": "Wake me at seven for work."}],
        tools=[openai.pydantic_function_tool(SetAlarm)],
        tool_choice="required",
        parallel_tool_calls=False,
        temperature=0,
    )
    [call] = parsed.choices[0].message.tool_calls or []
    assert isinstance(call.function.parsed_arguments, SetAlarm)


def test_the_stream_helper_tells_of_the_arguments_as_they_come(served: Served) -> None:
    kinds = []
    with served.client.chat.completions.stream(
        model=served.model,
        messages=[{"role": "user", "content": "Wake me at seven for work."}],
        tools=[openai.pydantic_function_tool(SetAlarm)],
        tool_choice="required",
        parallel_tool_calls=False,
        temperature=0,
    ) as events:
        kinds = [event.type for event in events]
        final = events.get_final_completion()
    [call] = final.choices[0].message.tool_calls or []
    assert isinstance(call.function.parsed_arguments, SetAlarm)
    assert kinds.count("tool_calls.function.arguments.delta") >= 1
    assert kinds.count("tool_calls.function.arguments.done") == 1


async def test_the_asynchronous_client(served: Served) -> None:
    async with AsyncOpenAI(
        base_url=f"{served.url}/v1", api_key="none", timeout=300, max_retries=0
    ) as client:
        fields: Any = {"model": served.model, "tools": TOOLS, "tool_choice": NAMED}
        plain = await client.chat.completions.create(messages=QUESTION, temperature=0, **fields)
        pieces = []
        async for chunk in await client.chat.completions.create(
            messages=QUESTION, temperature=0, stream=True, **fields
        ):
            for delta in chunk.choices[0].delta.tool_calls or []:
                assert delta.function
                pieces.append(delta.function.arguments or "")
        listed = [model.id async for model in client.models.list()]
    [(_, arguments)] = checked_calls(plain)
    assert json.loads("".join(pieces)) == arguments
    assert listed[0] == served.model


# Many, and those who leave


def test_four_requests_at_once_each_get_their_own_answer(served: Served) -> None:
    def one(number: int) -> ChatCompletion:
        schema = {
            "type": "object",
            "properties": {"lane": {"const": f"lane {number}"}, "city": {"type": "string"}},
            "required": ["lane", "city"],
        }
        tools = [{"type": "function", "function": {"name": f"go_{number}", "parameters": schema}}]
        return ask(served, QUESTION, stream=number % 2 == 1, tools=tools, tool_choice="required",
                   parallel_tool_calls=False)  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(one, range(4)))
    for number, answer in enumerate(answers):
        [call] = answer.choices[0].message.tool_calls or []
        assert call.type == "function"
        assert call.function.name == f"go_{number}"
        assert json.loads(call.function.arguments)["lane"] == f"lane {number}"


def test_a_closed_stream_ends_the_generation(served: Served) -> None:
    endless: Any = [{"role": "user", "content": "Count from 1 to 100000."}]
    stream = served.client.chat.completions.create(
        model=served.model, messages=endless, stream=True, logit_bias=_no_end(served)
    )
    for number, _ in enumerate(stream):
        if number == 3:
            break
    stream.close()
    wait_until_idle(served)


def test_a_plain_request_that_is_given_up_ends_the_generation(served: Served) -> None:
    endless: Any = [{"role": "user", "content": "Count from 1 to 100000."}]
    with pytest.raises(openai.APITimeoutError):
        served.client.with_options(timeout=2).chat.completions.create(
            model=served.model, messages=endless, logit_bias=_no_end(served)
        )
    wait_until_idle(served)


def _no_end(served: Served) -> dict[str, int]:
    """A bias against the tokens that end a turn, so that the model cannot stop by itself."""
    qwen = {"151643": -100, "151645": -100}
    return qwen if served.model.startswith("qwen") else {"0": -100, "2": -100}


# Errors as the SDK raises them


def test_errors_arrive_as_the_exceptions_of_the_sdk(served: Served) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        served.client.chat.completions.create(model="nobody", messages=QUESTION)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as overflow:
        ask(served, [{"role": "user", "content": "word " * 40_000}], stream=True)
    assert overflow.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as wrong:
        ask(served, QUESTION, tool_choice="required")
    assert wrong.value.param == "tool_choice"


# What the banner says


def test_the_snippets_of_the_banner_make_a_tool_call(served: Served) -> None:
    _, curl, snippet, _ = served.running.banner.split("-" * 78 + "\n", 3)
    python = subprocess.run(
        [sys.executable, "-c", snippet], capture_output=True, text=True, timeout=300
    )
    assert python.returncode == 0, python.stderr
    if served.model.startswith("qwen"):  # the smaller one rather chats
        assert "get_weather" in python.stdout
    shell = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, timeout=300)
    if shell.returncode == 127:
        pytest.skip("there is no curl")
    [choice] = json.loads(shell.stdout)["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


async def test_health_tells_of_a_running_request(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=300) as client:
        body = {"model": served.model, "messages": QUESTION, "max_tokens": 20}
        asked = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        seen = set()
        while not asked.done():
            seen.add((await client.get("/health")).json()["running"])
            await asyncio.sleep(0.01)
        assert asked.result().status_code == 200
    assert 1 in seen
