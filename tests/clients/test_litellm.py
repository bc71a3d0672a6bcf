"""litellm with the `openai/` prefix, as its manual has it for servers like this."""

from __future__ import annotations

from typing import Any

import litellm
import pytest

from tests.clients.conftest import Served
from tests.clients.weather import NAME, QUESTION, TIMEOUT_S, TOOL, Weather

USER = {"role": "user", "content": QUESTION}


def fields(served: Served, **others: Any) -> Any:
    return {
        "model": f"openai/{served.model}",
        "api_base": served.base_url,
        "api_key": "none",
        "temperature": 0,
        "max_tokens": 100,
        "timeout": TIMEOUT_S,
        "num_retries": 0,
        "tools": [TOOL],
        **others,
    }


def history(first: Any, weather: Weather) -> list[Any]:
    assert first.choices[0].finish_reason == "tool_calls"
    message = first.choices[0].message
    [call] = message.tool_calls
    assert call.function.name == NAME
    result = weather.run(call.function.arguments)
    return [USER, message, {"role": "tool", "tool_call_id": call.id, "content": result}]


@pytest.mark.parametrize("stream", [False, True])
def test_the_loop(served: Served, weather: Weather, stream: bool) -> None:
    def ask(messages: list[Any], tool_choice: str) -> Any:
        answer = litellm.completion(
            **fields(served, messages=messages, tool_choice=tool_choice, stream=stream)
        )
        return litellm.stream_chunk_builder(list(answer), messages) if stream else answer

    first = ask([USER], "required")
    last = ask(history(first, weather), "none")
    weather.check(last.choices[0].message.content)


async def test_the_loop_without_blocking(served: Served, weather: Weather) -> None:
    first = await litellm.acompletion(
        **fields(
            served, messages=[USER], tool_choice={"type": "function", "function": {"name": NAME}}
        )
    )
    stream = await litellm.acompletion(
        **fields(served, messages=history(first, weather), tool_choice="none", stream=True)
    )
    deltas = [chunk.choices[0].delta.content or "" async for chunk in stream]
    weather.check("".join(deltas))
