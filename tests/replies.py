"""Reading chat answers in tests, plain and streamed alike."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx

from tests.serving import CHAT, parse_stream, rig, started


def folded(answer: httpx.Response) -> dict[str, Any]:
    """A streamed answer as a plain one; held to the shape of a stream on the way."""
    *chunks, done = parse_stream(answer.text)
    assert done.data == "[DONE]"
    heads = {json.dumps([c.data[k] for k in ("id", "object", "created", "model")]) for c in chunks}
    assert len(heads) == 1
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    reasons, usage = [], None
    assert chunks[0].data["choices"][0]["delta"] == {"role": "assistant"}
    for chunk in chunks[1:]:
        assert chunk.event == "message"
        assert "error" not in chunk.data
        if not chunk.data["choices"]:
            usage = chunk.data["usage"]
            continue
        assert "usage" not in chunk.data
        [choice] = chunk.data["choices"]
        reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
        delta = choice["delta"]
        if "content" in delta:
            message["content"] = (message["content"] or "") + delta["content"]
        if "reasoning_content" in delta:
            said = message.get("reasoning_content", "")
            message["reasoning_content"] = said + delta["reasoning_content"]
        for piece in delta.get("tool_calls", []):
            _add(calls, piece)
    if calls:
        message["tool_calls"] = calls
    [reason] = reasons
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": usage,
    }


def _add(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    if piece["index"] == len(calls):
        assert set(piece) == {"index", "id", "type", "function"}
        assert piece["function"]["arguments"] == ""
        calls.append({key: piece[key] for key in ("id", "type", "function")})
        return
    assert set(piece) == {"index", "function"}
    assert piece["index"] == len(calls) - 1
    assert set(piece["function"]) == {"arguments"}
    calls[-1]["function"]["arguments"] += piece["function"]["arguments"]


def calls_of(reply: dict[str, Any]) -> list[tuple[str, Any]]:
    """Names and parsed arguments of the calls of an answer."""
    calls = reply["choices"][0]["message"].get("tool_calls", [])
    for one in calls:
        assert one["type"] == "function"
        assert re.fullmatch("[A-Za-z0-9]{9}", one["id"])
    assert len({one["id"] for one in calls}) == len(calls)
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]


def content_of(reply: dict[str, Any]) -> str | None:
    content: str | None = reply["choices"][0]["message"]["content"]
    return content


def reason_of(reply: dict[str, Any]) -> str:
    reason: str = reply["choices"][0]["finish_reason"]
    return reason


async def answer_to(
    says: dict[str, str], body: dict[str, Any], *, stream: bool = False, **values: Any
) -> dict[str, Any]:
    """The answer in plain form, however it was asked for. `usage` adds up."""
    if stream:
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with started(rig(says, **values)) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    reply: dict[str, Any] = folded(answer) if stream else answer.json()
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return reply
