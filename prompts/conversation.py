"""A conversation as templates see it, whatever the wire format was.

The wire layer has already merged text parts, paired results with their calls and parsed arguments;
here are only the values that remain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

JsonObject = dict[str, Any]
Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class PastCall:
    """A call in the history. `arguments` is the raw text where it was not a JSON object."""

    id: str
    name: str
    arguments: JsonObject | str


@dataclass(frozen=True)
class Message:
    """One message. `content` is "" where the client sent none.

    `calls` belong to an assistant; `call_id` and `name` (of the tool) to a tool result.
    """

    role: Role
    content: str = ""
    calls: tuple[PastCall, ...] = ()
    call_id: str = ""
    name: str = ""
    reasoning: str = ""


@dataclass(frozen=True)
class Tool:
    """An offered function. `parameters` is the client's schema, with an object type filled in."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True)
class Conversation:
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    template_options: JsonObject = field(default_factory=dict)  # `chat_template_kwargs`
