"""Short ways to write requests down in tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from prompts.conversation import Message
from server.errors import InvalidRequest
from server.wire.chat import ChatRequest, parse_chat_request
from server.wire.history import to_conversation


@dataclass(frozen=True)
class SmallLimits:
    max_body_bytes: int = 100_000
    max_depth: int = 32
    max_messages: int = 50
    max_tools: int = 20


LIMITS = SmallLimits()
USER = {"role": "user", "content": "Hello."}


def encoded(**fields: Any) -> bytes:
    body = {"model": "m", "messages": [USER], **fields}
    return json.dumps(body, ensure_ascii=False).encode()


def ask(**fields: Any) -> ChatRequest:
    return parse_chat_request(encoded(**fields), LIMITS)


def refused(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        ask(**fields)
    return caught.value


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def custom(name: str, **definition: Any) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": name, **definition}}


def grammar(syntax: str, definition: str) -> dict[str, Any]:
    """The format of a custom tool's input."""
    return {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}


def call(id: str, name: str = "look", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def made(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def result(id: str | None, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **fields}


def mended(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return to_conversation(ask(messages=list(messages))).messages
