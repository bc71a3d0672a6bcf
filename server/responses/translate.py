"""A response's request as a chat request, and complaints about that one in the client's words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from server.errors import InvalidRequest
from server.responses.items import (
    CallOutputItem,
    CustomCallItem,
    FunctionCallItem,
    Item,
    MessageItem,
    ReasoningItem,
)
from server.responses.request import LOGPROBS, JsonSchemaFormat, ResponsesRequest
from server.wire.base import complaint
from server.wire.body import JsonObject
from server.wire.chat import ChatRequest
from server.wire.extent import ExtentFields
from server.wire.sampling import SamplingFields

_ALIKE = {
    *SamplingFields.model_fields,
    *ExtentFields.model_fields,
    *("apply_defaults", "chat_template_kwargs", "include_timings", "model"),
    *("parallel_tool_calls", "prompt_template", "reasoning_budget"),
    *("tool_call_bias", "fit_question", "tool_choice"),
}
"""Fields that are the same in both APIs."""


@dataclass
class Dialogue:
    """Messages of a chat request under way, and which item each of them came from."""

    messages: list[JsonObject] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    call_places: list[list[str]] = field(default_factory=list)

    def add(self, place: str, message: JsonObject) -> JsonObject:
        self.messages.append(message)
        self.places.append(place)
        self.call_places.append([])
        return message

    def add_item(self, place: str, item: Item) -> None:
        match item:
            case MessageItem(role="assistant"):
                self._turn(place, "content")["content"] = item.content
            case MessageItem():
                self.add(place, {"role": item.role, "content": item.content})
            case ReasoningItem():
                turn = self._turn(place, "content", "tool_calls")
                turn["reasoning_content"] = turn.get("reasoning_content", "") + item.text
            case FunctionCallItem():
                inner = {"name": item.name, "arguments": item.arguments}
                self._call(place, {"id": item.call_id, "type": "function", "function": inner})
            case CustomCallItem():
                inner = {"name": item.name, "input": item.input}
                self._call(place, {"id": item.call_id, "type": "custom", "custom": inner})
            case CallOutputItem():
                result = {"role": "tool", "tool_call_id": item.call_id, "content": item.output}
                self.add(place, {**result, "name": item.name})

    def _call(self, place: str, call: JsonObject) -> None:
        turn = self._turn(place)
        turn.setdefault("tool_calls", []).append(call)
        self.call_places[-1].append(place)

    def _turn(self, place: str, *closed_by: str) -> JsonObject:
        """The assistant's message that is under way, or a new one.

        One message holds reasoning, text and calls, in this order: what comes after one of
        `closed_by` opens the next.
        """
        last = self.messages[-1] if self.messages else {}
        if last.get("role") == "assistant" and not any(key in last for key in closed_by):
            return last
        return self.add(place, {"role": "assistant"})


@dataclass(frozen=True)
class Translation:
    """`restated` turns what is wrong with the chat request into words about the response's."""

    request: ChatRequest
    dialogue: Dialogue

    def restated(self, error: InvalidRequest) -> InvalidRequest:
        return _restated(error, self.dialogue)


def to_chat(request: ResponsesRequest, past: Sequence[Item], given: Sequence[Item]) -> Translation:
    """`past` are the items of the responses that this one goes on from, `given` those of its input.

    Raises InvalidRequest.
    """
    dialogue = Dialogue()
    if request.instructions:
        dialogue.add("instructions", {"role": "system", "content": request.instructions})
    for item in past:
        dialogue.add_item("previous_response_id", item)
    for index, item in enumerate(given):
        dialogue.add_item(f"input[{index}]", item)
    last = dialogue.messages[-1]
    if last["role"] == "assistant" and last.keys() <= {"role", "reasoning_content"}:
        raise InvalidRequest(
            f"{dialogue.places[-1]}: reasoning needs the message or call that came of it",
            param=dialogue.places[-1],
        )
    data = {**_fields(request), "messages": dialogue.messages}
    try:
        return Translation(ChatRequest.model_validate(data), dialogue)
    except ValidationError as exc:
        raise _restated(complaint(exc), dialogue) from None
    except InvalidRequest as exc:
        raise _restated(exc, dialogue) from None


def _fields(request: ResponsesRequest) -> JsonObject:
    """The fields of the chat request beside its messages; what was not said stays so."""
    said = request.model_dump(include=request.model_fields_set & _ALIKE, by_alias=True)
    text = request.text.format
    data: dict[str, Any] = {
        **said,
        "tools": [tool.as_chat() for tool in request.tools],
        "max_completion_tokens": request.max_output_tokens,
        "reasoning_effort": request.reasoning.effort,
        "verbosity": request.text.verbosity,
        "response_format": text.as_chat()
        if isinstance(text, JsonSchemaFormat)
        else text.model_dump(by_alias=True),
    }
    if LOGPROBS in request.include:
        data |= {"logprobs": True, "top_logprobs": request.top_logprobs or 0}
    return data


_MESSAGE = re.compile(r"\bmessages\[(\d+)\](?:\.tool_calls\[(\d+)\])?((?:\.\w+|\[\d+\])*)")
_RENAMED = (
    (re.compile(r"\b(tools\[\d+\])\.(?:function|custom)\b"), r"\1"),
    (re.compile(r"\b(tools\[\d+\]\.format)\.grammar\b"), r"\1"),
    (re.compile(r"\btool_choice\.(?:allowed_tools|function|custom)\b"), "tool_choice"),
    (re.compile(r"\bresponse_format(?:\.json_schema)?\b"), "text.format"),
    (re.compile(r"\bmax_completion_tokens\b"), "max_output_tokens"),
    (re.compile(r"\breasoning_effort\b"), "reasoning.effort"),
    (re.compile(r"(?<!\.)\bverbosity\b"), "text.verbosity"),
    (re.compile(r"^messages$"), "input"),
)


def _restated(error: InvalidRequest, dialogue: Dialogue) -> InvalidRequest:
    return type(error)(
        _in_own_words(error.message, dialogue),
        param=error.param and _in_own_words(error.param, dialogue),
        code=error.code,
    )


def _in_own_words(text: str, dialogue: Dialogue) -> str:
    def place(match: re.Match[str]) -> str:
        message, call, rest = int(match[1]), match[2], match[3]
        if message >= len(dialogue.places):
            return match[0]
        if rest == ".tool_call_id":
            return dialogue.places[message] + ".call_id"
        calls = dialogue.call_places[message]
        if call is not None and int(call) < len(calls):
            return calls[int(call)]
        return dialogue.places[message]

    text = _MESSAGE.sub(place, text)
    for pattern, renamed in _RENAMED:
        text = pattern.sub(renamed, text)
    return text
