"""A response and its items as they go over the wire.

A key that is not required is left out where there is nothing to say.
"""

from __future__ import annotations

from typing import Literal, NotRequired, Required

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from server.wire.body import JsonObject
from server.wire.logprobs import ContentEntry
from server.wire.replies import ErrorBody

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(TypedDict):
    type: Literal["output_text"]
    text: str
    annotations: list[JsonObject]
    logprobs: list[ContentEntry]


class ReasoningText(TypedDict):
    type: Literal["reasoning_text"]
    text: str


class OutputMessage(TypedDict):
    id: str
    type: Literal["message"]
    status: ItemStatus
    role: Literal["assistant"]
    content: list[OutputText]


class OutputReasoning(TypedDict):
    """`summary` is always empty: the reasoning is in `content`, in full."""

    id: str
    type: Literal["reasoning"]
    status: ItemStatus
    summary: list[JsonObject]
    content: list[ReasoningText]
    encrypted_content: NotRequired[str]


class OutputCall(TypedDict):
    id: str
    type: Literal["function_call"]
    status: ItemStatus
    call_id: str
    name: str
    arguments: str


class OutputCustomCall(TypedDict):
    id: str
    type: Literal["custom_tool_call"]
    status: ItemStatus
    call_id: str
    name: str
    input: str


OutputItem = OutputMessage | OutputReasoning | OutputCall | OutputCustomCall


class CachedTokens(TypedDict):
    cached_tokens: int
    cache_write_tokens: int


class ReasoningTokens(TypedDict):
    reasoning_tokens: int


class ResponseUsage(TypedDict):
    input_tokens: int
    input_tokens_details: CachedTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class ResponseError(TypedDict):
    code: Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]
    message: str


class Incomplete(TypedDict):
    reason: Literal["max_output_tokens"]


class ResponseObject(TypedDict):
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: ResponseStatus
    background: Literal[False]
    error: ResponseError | None
    incomplete_details: Incomplete | None
    instructions: str | None
    max_output_tokens: int | None
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    reasoning: JsonObject
    store: bool
    temperature: float | None
    text: JsonObject
    tool_choice: str | JsonObject
    tools: list[JsonObject]
    top_logprobs: int | None
    top_p: float | None
    truncation: Literal["disabled"]
    usage: ResponseUsage | None
    metadata: dict[str, str]
    timings: NotRequired[dict[str, float]]


class StreamEvent(TypedDict, total=False):
    """`type` and `sequence_number` are in all; the others where the SDK's type of that name has
    them."""

    type: Required[str]
    sequence_number: Required[int]
    response: ResponseObject
    output_index: int
    item: OutputItem
    item_id: str
    content_index: int
    part: OutputText | ReasoningText
    delta: str
    text: str
    arguments: str
    input: str
    logprobs: list[ContentEntry]
    message: str
    code: str | None
    param: str | None
    error: ErrorBody


class ItemList(TypedDict):
    object: Literal["list"]
    data: list[JsonObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(TypedDict):
    id: str
    object: Literal["response"]
    deleted: Literal[True]
