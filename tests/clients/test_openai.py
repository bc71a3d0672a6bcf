"""openai-python: plain and streamed, synchronous and not, and its helpers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.clients.conftest import Served
from tests.clients.weather import (
    FORECAST_TEXT,
    NAME,
    QUESTION,
    TIMEOUT_S,
    TOOL,
    Asked,
    Forecast,
    Weather,
)

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
USER: Any = {"role": "user", "content": QUESTION}
CALLED: Any = {"tool_choice": {"type": "function", "function": {"name": NAME}}}
ANSWERED: Any = {"tool_choice": "none", "max_tokens": 40}


@pytest.fixture
def client(served: Served) -> Iterator[OpenAI]:
    with OpenAI(
        base_url=served.base_url, api_key="none", timeout=TIMEOUT_S, max_retries=0
    ) as client:
        yield client


@pytest.fixture
async def async_client(served: Served) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=served.base_url, api_key="none", timeout=TIMEOUT_S, max_retries=0
    ) as client:
        yield client


def fields(served: Served, **others: Any) -> Any:
    return {"model": served.model, "temperature": 0, "tools": [TOOL], **others}


def result_messages(message: Any, weather: Weather) -> Any:
    """The assistant's message with its one call, and the result."""
    [call] = message["tool_calls"]
    assert call["id"]
    assert call["type"] == "function"
    assert call["function"]["name"] == NAME
    result = weather.run(call["function"]["arguments"])
    return [message, {"role": "tool", "tool_call_id": call["id"], "content": result}]


class Folded:
    """A message put together from its chunks by hand, as people do."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {"role": "assistant", "content": ""}
        self.finish_reason: str | None = None

    def take(self, chunk: ChatCompletionChunk) -> None:
        [choice] = chunk.choices
        assert self.finish_reason is None
        self.finish_reason = choice.finish_reason
        self.message["content"] += choice.delta.content or ""
        for delta in choice.delta.tool_calls or []:
            calls = self.message.setdefault("tool_calls", [])
            assert delta.function
            if delta.id is not None:
                assert delta.index == len(calls)
                function = {"name": delta.function.name, "arguments": ""}
                calls.append({"id": delta.id, "type": delta.type, "function": function})
            calls[delta.index]["function"]["arguments"] += delta.function.arguments or ""


def plain_message(completion: ChatCompletion) -> tuple[dict[str, Any], str]:
    [choice] = completion.choices
    return choice.message.to_dict(), choice.finish_reason


@PLAIN_AND_STREAMED
def test_the_loop(served: Served, client: OpenAI, weather: Weather, stream: bool) -> None:
    def ask(messages: Any, **others: Any) -> tuple[dict[str, Any], str | None]:
        answer = client.chat.completions.create(
            messages=messages, stream=stream, **fields(served, **others)
        )
        if isinstance(answer, ChatCompletion):
            return plain_message(answer)
        folded = Folded()
        for chunk in answer:
            folded.take(chunk)
        return folded.message, folded.finish_reason

    message, finish_reason = ask([USER], **CALLED)
    assert finish_reason == "tool_calls"
    last, finish_reason = ask([USER, *result_messages(message, weather)], **ANSWERED)
    assert finish_reason in ("stop", "length")
    assert "tool_calls" not in last
    weather.check(last["content"])


@PLAIN_AND_STREAMED
async def test_the_loop_without_blocking(
    served: Served, async_client: AsyncOpenAI, weather: Weather, stream: bool
) -> None:
    async def ask(messages: Any, **others: Any) -> tuple[dict[str, Any], str | None]:
        answer = await async_client.chat.completions.create(
            messages=messages, stream=stream, **fields(served, **others)
        )
        if isinstance(answer, ChatCompletion):
            return plain_message(answer)
        folded = Folded()
        async for chunk in answer:
            folded.take(chunk)
        return folded.message, folded.finish_reason

    message, _ = await ask([USER], **CALLED)
    last, _ = await ask([USER, *result_messages(message, weather)], **ANSWERED)
    weather.check(last["content"])


# The helpers


def test_the_stream_helper_tells_of_a_call_as_it_comes(
    served: Served, client: OpenAI, weather: Weather
) -> None:
    tools = [openai.pydantic_function_tool(Asked, name=NAME)]
    common: Any = {"model": served.model, "temperature": 0, "tools": tools}
    with client.chat.completions.stream(
        messages=[USER], stream_options={"include_usage": True}, **common, **CALLED
    ) as events:
        kinds = [event.type for event in events]
        completion = events.get_final_completion()
    assert kinds.count("tool_calls.function.arguments.done") == 1
    assert "tool_calls.function.arguments.delta" in kinds
    assert completion.usage
    message = completion.choices[0].message
    assert message.tool_calls
    assert isinstance(message.tool_calls[0].function.parsed_arguments, Asked)
    history = [USER, *result_messages(_as_sent(message), weather)]
    with client.chat.completions.stream(messages=history, **common, **ANSWERED) as events:
        deltas = [event.delta for event in events if event.type == "content.delta"]
    weather.check("".join(deltas))


def test_parse_gives_the_arguments_as_a_model(
    served: Served, client: OpenAI, weather: Weather
) -> None:
    tools = [openai.pydantic_function_tool(Asked, name=NAME)]
    common: Any = {"model": served.model, "temperature": 0, "tools": tools}
    parsed = client.chat.completions.parse(messages=[USER], **common, **CALLED)
    message = parsed.choices[0].message
    assert message.tool_calls
    assert isinstance(message.tool_calls[0].function.parsed_arguments, Asked)
    history = [USER, *result_messages(_as_sent(message), weather)]
    last = client.chat.completions.create(messages=history, **common, **ANSWERED)
    weather.check(last.choices[0].message.content)


def _as_sent(message: Any) -> Any:
    return message.to_dict(exclude_none=True, mode="json", exclude_unset=True)


@PLAIN_AND_STREAMED
async def test_parse_gives_an_answer_as_a_model(
    served: Served, async_client: AsyncOpenAI, stream: bool
) -> None:
    common: Any = {
        "model": served.model,
        "messages": [{"role": "user", "content": FORECAST_TEXT}],
        "response_format": Forecast,
        "temperature": 0,
    }
    if stream:
        async with async_client.chat.completions.stream(**common) as events:
            parsed = await events.get_final_completion()
    else:
        parsed = await async_client.chat.completions.parse(**common)
    assert isinstance(parsed.choices[0].message.parsed, Forecast)
