"""Answers of the chat-completions API as they go over the wire.

A key that is not required is left out where there is nothing to say, never null. Typed
dictionaries rather than models: what is written is exactly what is here, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from server.errors import CallwrightError
from server.events import FinishReason, Usage
from server.wire.base import clipped
from server.wire.logprobs import ChoiceLogprobs

MAX_ERROR_MESSAGE = 1900

WireFinishReason = FinishReason | Literal["function_call"]
"""The last one is of legacy functions, in place of `tool_calls`."""


class Function(TypedDict):
    name: str
    arguments: str


class Call(TypedDict):
    id: str
    type: Literal["function"]
    function: Function


class Custom(TypedDict):
    name: str
    input: str


class CustomCall(TypedDict):
    id: str
    type: Literal["custom"]
    custom: Custom


class AssistantMessage(TypedDict):
    role: Literal["assistant"]
    content: str | None
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[Call | CustomCall]]
    function_call: NotRequired[Function]


class Choice(TypedDict):
    index: int
    message: AssistantMessage
    logprobs: NotRequired[ChoiceLogprobs]
    finish_reason: WireFinishReason


class PromptTokensDetails(TypedDict):
    cached_tokens: int


class CompletionTokensDetails(TypedDict):
    reasoning_tokens: int


class TokenUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class ChatCompletion(TypedDict):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: TokenUsage
    timings: NotRequired[dict[str, float]]


class FunctionDelta(TypedDict):
    name: NotRequired[str]
    arguments: str


class CallDelta(TypedDict):
    """The first one of a call has all keys, the later ones `index` and the arguments only."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: FunctionDelta


class CustomInputDelta(TypedDict):
    name: NotRequired[str]
    input: str


class CustomCallDelta(TypedDict):
    """As of a function, with the input in place of the arguments."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["custom"]]
    custom: CustomInputDelta


class Delta(TypedDict, total=False):
    role: Literal["assistant"]
    content: str
    reasoning_content: str
    tool_calls: list[CallDelta | CustomCallDelta]
    function_call: FunctionDelta


class ChunkChoice(TypedDict):
    index: int
    delta: Delta
    logprobs: NotRequired[ChoiceLogprobs]
    finish_reason: WireFinishReason | None


class ChatCompletionChunk(TypedDict):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: NotRequired[TokenUsage]
    timings: NotRequired[dict[str, float]]


class ErrorBody(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(TypedDict):
    error: ErrorBody


class Model(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[Model]


def token_usage(usage: Usage) -> TokenUsage:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def error_reply(error: CallwrightError) -> ErrorReply:
    return {
        "error": {
            "message": clipped(error.message, MAX_ERROR_MESSAGE),
            "type": error.type,
            "param": error.param,
            "code": error.code,
        }
    }


def model_list(names: Iterable[str], created: int) -> ModelList:
    """The model under each of its names, the main one first."""
    return {"object": "list", "data": [_model(name, created) for name in names]}


def _model(name: str, created: int) -> Model:
    return {"id": name, "object": "model", "created": created, "owned_by": "callwright"}


def to_json(reply: Any) -> bytes:
    """Compact JSON in raw UTF-8; half a surrogate pair, which is not text, becomes `?`."""
    text = json.dumps(reply, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", errors="replace")
