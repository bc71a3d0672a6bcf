"""Request fields through the OpenAI SDK, with a small real model."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import validate
from openai import OpenAI
from openai.types.chat import ChatCompletion
from openai.types.chat.chat_completion import Choice

from tests.e2e.conftest import Served
from tests.e2e.process import started

pytestmark = [pytest.mark.weights, pytest.mark.timeout(3600)]

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Any = {"name": "get_weather", "description": "The weather.", "parameters": CITY}
TOOLS: Any = [{"type": "function", "function": FUNCTION}]
QUESTION: Any = [{"role": "user", "content": "What is the weather in Porto? Write 天気, too."}]


@pytest.fixture(scope="module")
def small(small_model: str) -> Iterator[Served]:
    with started("serve", "--port", "0", "--model", small_model) as running:
        running.wait_until_ready()
        with OpenAI(
            base_url=f"{running.url}/v1", api_key="none", timeout=300, max_retries=0
        ) as client:
            yield Served(small_model, running, client)
        assert running.end(signal.SIGINT) == 0
        assert "Traceback" not in running.stderr


def ask(small: Served, *, stream: bool, **fields: Any) -> ChatCompletion:
    fields = {"model": small.model, "messages": QUESTION, "max_tokens": 40, **fields}
    if not stream:
        plain: ChatCompletion = small.client.chat.completions.create(**fields)
        return plain
    with small.client.chat.completions.stream(**fields) as chunks:
        for _ in chunks:
            pass
        return chunks.current_completion_snapshot


def check_logprobs(choice: Choice, count: int) -> bytes:
    """The bytes of all tokens; each is the most probable one where nothing else was chosen."""
    assert choice.logprobs
    assert choice.logprobs.content
    for entry in choice.logprobs.content:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == count
        assert sum(math.exp(one.logprob) for one in entry.top_logprobs) < 1.0001
    return b"".join(bytes(entry.bytes or ()) for entry in choice.logprobs.content)


@PLAIN_AND_STREAMED
def test_the_tokens_of_a_text_and_their_probabilities(small: Served, stream: bool) -> None:
    answer = ask(small, stream=stream, logprobs=True, top_logprobs=20, temperature=0)
    [choice] = answer.choices
    text = (choice.message.content or "").encode()
    assert check_logprobs(choice, 20).startswith(text)
    assert choice.logprobs
    for entry in choice.logprobs.content or ():
        assert entry.bytes == entry.top_logprobs[0].bytes


@PLAIN_AND_STREAMED
def test_the_tokens_of_a_call_and_their_probabilities(small: Served, stream: bool) -> None:
    fields: Any = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    answer = ask(small, stream=stream, logprobs=True, max_tokens=200, **fields)
    [choice] = answer.choices
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    validate(json.loads(call.function.arguments), CITY)
    assert call.function.arguments.encode() in check_logprobs(choice, 0)


@PLAIN_AND_STREAMED
def test_several_choices_differ(small: Served, stream: bool) -> None:
    answer = ask(small, stream=stream, n=3, temperature=1.2, seed=5, max_tokens=12)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 3


def test_a_legacy_function_is_called(small: Served) -> None:
    plain: Any = small.client.chat.completions.create(
        model=small.model, messages=QUESTION, functions=[FUNCTION],
        function_call={"name": "get_weather"}, max_tokens=200,
    )  # fmt: skip
    [choice] = plain.choices
    assert choice.finish_reason == "function_call"
    validate(json.loads(choice.message.function_call.arguments), CITY)
    arguments = ""
    for chunk in small.client.chat.completions.create(
        model=small.model, messages=QUESTION, functions=[FUNCTION],
        function_call={"name": "get_weather"}, max_tokens=200, stream=True,
    ):  # fmt: skip
        for delta in (piece.delta.function_call for piece in chunk.choices):
            arguments += (delta.arguments or "") if delta else ""
    assert arguments == choice.message.function_call.arguments


def test_names_that_other_servers_have(small: Served) -> None:
    answer = ask(
        small,
        stream=False,
        max_tokens=200,
        extra_body={"guided_json": CITY, "repetition_penalty": 1.05, "top_k": 40},
    )
    validate(json.loads(answer.choices[0].message.content or ""), CITY)
    long = ask(small, stream=False, extra_body={"ignore_eos": True, "min_tokens": 5})
    assert long.usage
    assert long.usage.completion_tokens == 40
