"""Reading chat answers in tests, plain and streamed alike."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.serving import CHAT, parse_stream, rig, started


def folded(answer: httpx.Response) -> dict[str, Any]:
    """A streamed answer as a plain one; held to the shape of a stream on the way."""
    *chunks, done = parse_stream(answer.text)
    assert done.data == "[DONE]"
    heads = {json.dumps([c.data[k] for k in ("id", "object", "created", "model")]) for c in chunks}
    assert len(heads) == 1
    choices: list[_Choice] = []
    usage = None
    for chunk in chunks:
        assert chunk.event == "message"
        assert "error" not in chunk.data
        assert usage is None, "something follows the usage"
        if not chunk.data["choices"]:
            usage = chunk.data["usage"]
            continue
        assert "usage" not in chunk.data
        [piece] = chunk.data["choices"]
        if piece["delta"].get("role"):
            assert piece["delta"] == {"role": "assistant"}
            assert piece["index"] == len(choices)
            choices.append(_Choice())
        else:
            choices[piece["index"]].add(piece)
    return {"choices": [one.plain(index) for index, one in enumerate(choices)], "usage": usage}


@dataclass
class _Choice:
    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    function_call: dict[str, str] | None = None
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None

    def add(self, piece: dict[str, Any]) -> None:
        assert self.reason is None, "something follows the finish_reason"
        self.reason = piece["finish_reason"]
        delta = piece["delta"]
        assert None not in delta.values()
        self.content += delta.get("content", "")
        self.reasoning += delta.get("reasoning_content", "")
        for call in delta.get("tool_calls", []):
            _add(self.calls, call)
        if more := delta.get("function_call"):
            self._add_legacy(more)
        if "logprobs" in piece:
            assert piece["logprobs"]["content"]
            self.logprobs += piece["logprobs"]["content"]

    def _add_legacy(self, more: dict[str, str]) -> None:
        if self.function_call is None:
            assert set(more) == {"name", "arguments"}
            assert more["arguments"] == ""
            self.function_call = dict(more)
        else:
            assert set(more) == {"arguments"}
            self.function_call["arguments"] += more["arguments"]

    def plain(self, index: int) -> dict[str, Any]:
        assert self.reason is not None
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        if self.function_call is not None:
            message["function_call"] = self.function_call
        choice = {"index": index, "message": message, "finish_reason": self.reason}
        return {**choice, "logprobs": {"content": self.logprobs}} if self.logprobs else choice


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
