"""Asking for responses in tests; streams are held to their grammar and to the SDK's types."""

from __future__ import annotations

from typing import Any

import httpx
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.serving import CITY, MODEL, Rig, parse_stream, rig, started

RESPONSES = "/v1/responses"
_EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_PARTS = {"output_text": "response.output_text", "reasoning_text": "response.reasoning_text"}
_TEXTS = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
}


def flat_tool(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": parameters or CITY}


def body(given: Any, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": given, **fields}


def checked(response: dict[str, Any]) -> dict[str, Any]:
    """A response, held to the SDK's type and to what always holds."""
    Response.model_validate(response)
    assert response["object"] == "response"
    ids = [item["id"] for item in response["output"]]
    assert len(set(ids)) == len(ids)
    usage = response["usage"]
    if usage is not None:
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    return response


def read_stream(text: str) -> list[dict[str, Any]]:
    """The events of a stream, each held to the SDK's type of its name."""
    chunks = parse_stream(text)
    for number, chunk in enumerate(chunks):
        _EVENTS.validate_python(chunk.data)
        assert chunk.event == chunk.data["type"]
        assert chunk.data["sequence_number"] == number
    return [chunk.data for chunk in chunks]


def folded(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The response at the end of a stream that did not fail, held to what was streamed before."""
    created, begun, *between, end = events
    assert (created["type"], begun["type"]) == ("response.created", "response.in_progress")
    assert created["response"] == begun["response"]
    assert created["response"]["status"] == "in_progress"
    assert created["response"]["output"] == []
    assert end["type"] in _ENDS
    assert end["type"] == f"response.{end['response']['status']}"
    items: list[dict[str, Any]] = []
    while between:
        item, between = _next_item(between, index=len(items))
        items.append(item)
    assert items == end["response"]["output"]
    same = created["response"].keys() - {"status", "output", "usage"} - {"completed_at"}
    for key in same - {"incomplete_details"}:
        assert created["response"][key] == end["response"][key]
    return checked(end["response"])


def _next_item(
    events: list[dict[str, Any]], index: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The item at the head of the events, put together from its deltas, and what follows it."""
    added = events[0]
    assert added["type"] == "response.output_item.added"
    kind = added["item"]["type"]
    size = next(n for n, e in enumerate(events) if e["type"] == "response.output_item.done") + 1
    inner, done = events[1 : size - 1], events[size - 1]
    for event in events[:size]:
        assert event["output_index"] == index
    for event in inner:
        assert event["item_id"] == added["item"]["id"]
    assert added["item"]["status"] == "in_progress"
    cut = done["item"]["status"] == "incomplete"
    if kind in _TEXTS:
        key, name = _TEXTS[kind]
        assert added["item"][key] == ""
        text = _text(inner, name, key, finished=not cut)
        made = {**added["item"], key: text, "status": done["item"]["status"]}
    else:
        made = {**added["item"], "content": [_part(inner)], "status": done["item"]["status"]}
        if "encrypted_content" in done["item"]:
            made["encrypted_content"] = done["item"]["encrypted_content"]
    assert made == done["item"]
    return made, events[size:]


def _part(events: list[dict[str, Any]]) -> dict[str, Any]:
    added, *inner, done = events
    assert added["type"] == "response.content_part.added"
    assert done["type"] == "response.content_part.done"
    for event in events:
        assert event["content_index"] == 0
    assert added["part"]["text"] == ""
    text = _text(inner, _PARTS[added["part"]["type"]], "text", finished=True)
    assert done["part"]["text"] == text
    part: dict[str, Any] = done["part"]
    if part["type"] == "output_text":
        scored = [one for event in inner[:-1] for one in event["logprobs"]]
        assert inner[-1]["logprobs"] == part["logprobs"] == scored
    return part


def _text(events: list[dict[str, Any]], name: str, key: str, *, finished: bool) -> str:
    """The deltas joined; where the item is finished a last event says the same in one piece."""
    if finished:
        *events, done = events
        assert done["type"] == f"{name}.done"
        assert done[key] == "".join(event["delta"] for event in events)
    for event in events:
        assert event["type"] == f"{name}.delta"
        assert event["delta"]
    return "".join(event["delta"] for event in events)


async def ask(client: httpx.AsyncClient, given: Any, **fields: Any) -> dict[str, Any]:
    """The response, however it was asked for."""
    answer = await client.post(RESPONSES, json=body(given, **fields))
    assert answer.status_code == 200, answer.text
    if fields.get("stream"):
        assert answer.headers["content-type"].startswith("text/event-stream")
        return folded(read_stream(answer.text))
    return checked(answer.json())


async def answer_to(
    says: dict[str, str], given: Any, *, made: Rig | None = None, **fields: Any
) -> dict[str, Any]:
    async with started(made or rig(says)) as client:
        return await ask(client, given, **fields)


def prompt_of(made: Rig) -> str:
    """The prompts that the model was shown, one after the other, as far as they were prefilled."""
    tokens = [item.token for batch in made.runner.passes for item in batch]
    return made.runner.vocabulary.decode(tokens).decode("utf-8", "replace")
