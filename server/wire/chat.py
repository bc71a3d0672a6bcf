"""The request of `/v1/chat/completions`: every field is honoured, or refused by name."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from server.errors import InvalidRequest
from server.wire.answer_format import AnswerFields
from server.wire.base import LIST, Wire, clipped, validated, wrong
from server.wire.body import JsonObject, Limits, check_count, read_object
from server.wire.extent import ExtentFields, check_end, continues_final
from server.wire.fields import refuse_unsupported
from server.wire.legacy import LegacyFields, check_legacy, legacy_choice
from server.wire.messages import WireMessage
from server.wire.sampling import SamplingFields
from server.wire.tools import (
    APPLY_DEFAULTS,
    CustomTool,
    FunctionTool,
    ToolChoice,
    WireChoice,
    WireTool,
    check_names,
    resolve_choice,
)

MAX_CHOICES = 8
MAX_TOP_LOGPROBS = 20

_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_RENDERED = frozenset(
    {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "self"}
)


def _check_options(options: JsonObject) -> JsonObject:
    for name in options:
        if name in _RENDERED or not _OPTION.fullmatch(name):
            raise wrong(f"{clipped(name, 80)!r} cannot be set by a request")
    return options


class StreamOptions(Wire):
    """`include_obfuscation` is not read: chunks are never padded."""

    include_usage: bool = False
    continuous_usage_stats: bool = False

    @field_validator("continuous_usage_stats")
    @classmethod
    def _at_the_end_only(cls, value: bool) -> bool:
        if value:
            raise wrong("usage is told at the end only")
        return value


class ChatRequest(SamplingFields, AnswerFields, ExtentFields, LegacyFields):
    """A chat-completions request. None means: not said, the server's or the model's default.

    `prompt_template` is the name of a template, never a path. `include_timings` adds where the time
    went. `apply_defaults` is for the tools that do not say themselves. `logprobs` asks for the
    log-probability of each token, `top_logprobs` for that many others in its place.
    `reasoning_budget` is the most tokens of reasoning. `tool_call_bias` is added to the logits of
    what opens a call, where the answer begins; `fit_question`: whether the model is asked before
    that whether a tool fits.
    """

    model: str = Field(min_length=1)
    messages: Annotated[tuple[WireMessage, ...], *LIST, Field(min_length=1)]

    tools: Annotated[tuple[WireTool, ...], *LIST] = ()
    tool_choice: WireChoice | None = None
    tool_call_bias: float | None = Field(None, ge=-100, le=100)
    fit_question: bool | None = None
    parallel_tool_calls: bool = True
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS)

    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)

    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    reasoning_budget: int | None = Field(None, ge=0)
    verbosity: Literal["low", "medium", "high"] | None = None
    chat_template_kwargs: Annotated[JsonObject, AfterValidator(_check_options)] = Field(
        default_factory=dict
    )
    include_timings: bool = False
    apply_defaults: bool = Field(False, alias=APPLY_DEFAULTS)
    prompt_template: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")

    @model_validator(mode="after")
    def _check_tools(self) -> Self:
        check_names(self.tools)
        check_legacy(self, has_tools=bool(self.tools), tool_choice=self.tool_choice)
        choice = self.choice
        check_end(
            self,
            is_text=choice.mode != "required" and self.answer_schema is None,
            has_stops=bool(self.stop),
            token_limit=self.token_limit,
        )
        if self.top_logprobs and not self.logprobs:
            raise InvalidRequest("top_logprobs needs logprobs: true", param="top_logprobs")
        return self

    @model_validator(mode="after")
    def _check_final(self) -> Self:
        continues_final(self, can_continue=self._can_continue)
        return self

    @property
    def choice(self) -> ToolChoice:
        """Which tools may be called, whether one must be, and how many."""
        if self.functions:
            return legacy_choice(self)
        return resolve_choice(self.tool_choice, self.tools, parallel=self.parallel_tool_calls)

    @property
    def offered(self) -> tuple[FunctionTool | CustomTool, ...]:
        """The tools, also where they came as `functions`."""
        return self.tools or tuple(FunctionTool(function=one) for one in self.functions)

    def path_of(self, index: int) -> str:
        """Where the request says what the arguments of an offered tool may be."""
        if self.functions:
            return f"functions[{index}].parameters"
        return f"tools[{index}].{self.tools[index].path}"

    def applies_defaults(self, tool: FunctionTool | CustomTool) -> bool:
        return self.apply_defaults if tool.apply_defaults is None else tool.apply_defaults

    @property
    def continues_final(self) -> bool:
        """Whether the answer goes on with the text of the last message."""
        return continues_final(self, can_continue=self._can_continue)

    @property
    def _can_continue(self) -> bool:
        return self.messages[-1].role == "assistant" and not self.messages[-1].calls

    @property
    def token_limit(self) -> int | None:
        """Most tokens of the answer: both spellings may be sent, the lower one holds."""
        given = [n for n in (self.max_tokens, self.max_completion_tokens) if n is not None]
        return min(given, default=None)


def parse_chat_request(body: bytes, limits: Limits, model: str | None = None) -> ChatRequest:
    """The request in the body of a POST. `model` is the one if none is named.

    Raises TooLarge, or InvalidRequest with the path of the field that is to blame. Never anything
    else, whatever the bytes are.
    """
    data = read_object(body, limits)
    check_count(data, "messages", limits.max_messages)
    check_count(data, "tools", limits.max_tools)
    check_count(data, "functions", limits.max_tools)
    refuse_unsupported(data)
    if model is not None and not data.get("model"):
        data["model"] = model
    return validated(ChatRequest, data)
