"""The OpenAI SDK's own view of responses, over a real socket. Without weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import ParsedResponse
from pydantic import BaseModel

from server.engine.runner import DecodeFailed
from tests.responses.helpers import flat_tool
from tests.serving import MODEL, Rig, call, live, rig

SAYS = {
    "hello": "Hi.",
    "weather": call("get_weather", '{"city": "Porto"}'),
    "21 degrees": "It is warm.",
    "where": '{"city": "Porto"}',
}
TOOLS: Any = [flat_tool("get_weather")]
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


class City(BaseModel):
    city: str


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Rig, str]]:
    made = rig(SAYS)
    with live(made) as serving:
        yield made, f"{serving.url}/v1"


@pytest.fixture
def client(served: tuple[Rig, str]) -> Iterator[OpenAI]:
    with OpenAI(base_url=served[1], api_key="none", max_retries=0) as made:
        yield made


def final(client: OpenAI, *, stream: bool, **fields: Any) -> Any:
    if not stream:
        return client.responses.create(model=MODEL, **fields)
    with client.responses.stream(model=MODEL, **fields) as events:
        return events.get_final_response()


@PLAIN_AND_STREAMED
def test_the_loop_of_question_call_result_and_text(client: OpenAI, stream: bool) -> None:
    first = final(client, stream=stream, input="weather", tools=TOOLS)
    [made] = first.output
    assert (made.type, made.name, made.arguments) == (
        "function_call", "get_weather", '{"city": "Porto"}',
    )  # fmt: skip
    result = {"type": "function_call_output", "call_id": made.call_id, "output": "21 degrees"}
    last = final(client, stream=stream, input=[result], tools=TOOLS, previous_response_id=first.id)
    assert last.output_text == "It is warm."
    assert last.status == "completed"
    # Without the store: the SDK's own items go back as they are.
    history = [{"role": "user", "content": "weather"}, *first.output, result]
    again = final(client, stream=stream, input=history, tools=TOOLS, store=False)
    assert again.output_text == "It is warm."


def test_a_parsed_text(client: OpenAI) -> None:
    parsed: ParsedResponse[City] = client.responses.parse(
        model=MODEL, input="where", text_format=City
    )
    assert parsed.output_parsed == City(city="Porto")
    with client.responses.stream(model=MODEL, input="where", text_format=City) as events:
        assert events.get_final_response().output_parsed == City(city="Porto")


def test_a_parsed_call(client: OpenAI) -> None:
    tool: Any = openai.pydantic_function_tool(City, name="get_weather")
    response = client.responses.parse(model=MODEL, input="weather", tools=[tool])
    [made] = response.output
    assert made.type == "function_call"
    assert made.parsed_arguments == City(city="Porto")


def test_snapshots_of_a_stream_grow(client: OpenAI) -> None:
    with client.responses.stream(model=MODEL, input="hello") as events:
        snapshots = [
            event.snapshot for event in events if event.type == "response.output_text.delta"
        ]
    assert snapshots[-1] == "Hi."
    assert snapshots == sorted(snapshots, key=len)


async def test_many_async_streams(served: tuple[Rig, str]) -> None:
    async with AsyncOpenAI(base_url=served[1], api_key="none", max_retries=0) as client:
        async with client.responses.stream(model=MODEL, input="hello") as events:
            assert (await events.get_final_response()).output_text == "Hi."
        stream = await client.responses.create(model=MODEL, input="hello", stream=True)
        kinds = [event.type async for event in stream]
    assert kinds[-1] == "response.completed"


def test_a_kept_response(client: OpenAI) -> None:
    made = client.responses.create(model=MODEL, input="hello")
    assert client.responses.retrieve(made.id) == made
    items = list(client.responses.input_items.list(made.id))
    assert [item.type for item in items] == ["message"]
    with pytest.raises(openai.BadRequestError, match="background"):
        client.responses.cancel(made.id)
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model=MODEL, input="hello", previous_response_id=made.id)
    assert caught.value.code == "previous_response_not_found"


def test_pages_of_input_items(client: OpenAI) -> None:
    given: Any = [{"role": "user", "content": f"hello {n}"} for n in range(5)]
    made = client.responses.create(model=MODEL, input=given)
    items: Any = list(client.responses.input_items.list(made.id, limit=2, order="asc"))
    assert [item.content[0].text for item in items] == [f"hello {n}" for n in range(5)]


def test_an_incomplete_response(client: OpenAI) -> None:
    made = client.responses.create(model=MODEL, input="hello", max_output_tokens=1)
    assert made.status == "incomplete"
    assert made.incomplete_details
    assert made.incomplete_details.reason == "max_output_tokens"
    with client.responses.stream(model=MODEL, input="hello", max_output_tokens=1) as events:
        kinds = [event.type for event in events]
    assert kinds[-1] == "response.incomplete"


def test_a_stream_that_fails_raises(served: tuple[Rig, str], client: OpenAI) -> None:
    served[0].runner.fail_next(DecodeFailed())
    kinds = []
    with pytest.raises(openai.APIError) as caught:  # noqa: PT012
        for event in client.responses.create(model=MODEL, input="hello", stream=True):
            kinds.append(event.type)
    assert kinds == ["response.created", "response.in_progress", "response.failed"]
    assert caught.value.message
