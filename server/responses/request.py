"""The request of `POST /v1/responses`: every field is honoured, or refused by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from server.errors import InvalidRequest
from server.responses.fields import EXTENSIONS, REFUSED
from server.responses.tools import Tool
from server.wire.answer_format import JsonObjectFormat, NamedSchema, TextFormat
from server.wire.base import LIST, Wire, clipped, validated, wrong
from server.wire.body import JsonObject, Limits, check_count, read_object
from server.wire.extent import ExtentFields
from server.wire.fields import refuse_unsupported
from server.wire.sampling import SamplingFields
from server.wire.tools import APPLY_DEFAULTS

ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

MAX_LABELS = 16
MAX_LABEL_NAME = 64
MAX_LABEL = 512
MAX_LOGPROBS = 20


def _read_input(value: Any) -> Any:
    """A text is one message of the user."""
    if isinstance(value, str):
        return ({"type": "message", "role": "user", "content": value},)
    if not isinstance(value, list):
        raise wrong("must be a text or a list of items")
    return value


def _check_include(entry: str) -> str:
    if entry not in (ENCRYPTED_REASONING, LOGPROBS):
        raise wrong(
            f"{clipped(entry, 80)!r} is not supported: nothing here has it;"
            f" {ENCRYPTED_REASONING} and {LOGPROBS} are"
        )
    return entry


def _check_labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise wrong(f"has {len(labels)} entries, at most {MAX_LABELS} are taken")
    for name, value in labels.items():
        if len(name) > MAX_LABEL_NAME or len(value) > MAX_LABEL:
            raise wrong(
                f"names have at most {MAX_LABEL_NAME} characters, values {MAX_LABEL}:"
                f" {clipped(name, 80)!r} has more"
            )
    return labels


def _check_truncation(value: Any) -> Any:
    if value == "auto":
        raise wrong("'auto' is not supported: nothing is ever dropped from a conversation")
    return value


def _check_summary(value: Any) -> Any:
    if value in ("concise", "detailed"):
        raise wrong(f"{value!r} is not supported: reasoning is not summarised, it is there in full")
    return value


def _only(allowed: tuple[str, ...], why: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in allowed:
            raise wrong(f"{clipped(value, 40)!r} is not supported: {why}")
        return value

    return AfterValidator(check)


class JsonSchemaFormat(NamedSchema):
    type: Literal["json_schema"]

    def as_chat(self) -> JsonObject:
        schema = self.model_dump(by_alias=True, exclude={"type"})
        return {"type": "json_schema", "json_schema": schema}


def _kind_of_format(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>" if isinstance(kind, str) else None


Format = Annotated[
    Annotated[TextFormat, Tag("<text>")]
    | Annotated[JsonObjectFormat, Tag("<json_object>")]
    | Annotated[JsonSchemaFormat, Tag("<json_schema>")],
    Discriminator(
        _kind_of_format,
        custom_error_type="wrong",
        custom_error_message="must be of type text, json_schema or json_object",
    ),
]


class TextOptions(Wire):
    format: Format = TextFormat(type="text")
    verbosity: Literal["low", "medium", "high"] | None = None


Summary = Annotated[Literal["auto"] | None, BeforeValidator(_check_summary)]


class ReasoningOptions(Wire):
    """`summary` auto asks for one where there is one, and there is none: the text is in full.

    Which earlier reasoning is shown to the model is up to its template.
    """

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Summary = None
    generate_summary: Summary = None
    context: Annotated[str, _only(("auto",), "the model's template decides")] = "auto"
    mode: Annotated[str, _only(("standard",), "there is one mode")] = "standard"


class ResponsesRequest(SamplingFields, ExtentFields):
    """A request for a response. None means: not said, the server's or the model's default.

    `input` holds the items as they came, since they are stored so; `items.py` reads them. Beside
    OpenAI's fields those of the chat API that local servers add are taken.
    """

    model: str = Field(min_length=1)
    input: Annotated[
        tuple[JsonObject, ...],
        *LIST,
        Field(min_length=1),
        BeforeValidator(_read_input, json_schema_input_type=str | list[JsonObject]),
    ]
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None

    tools: Annotated[tuple[Tool, ...], *LIST] = ()
    tool_choice: Literal["none", "auto", "required"] | JsonObject = "auto"
    tool_call_bias: float | None = None
    fit_question: bool | None = None
    parallel_tool_calls: bool = True
    text: TextOptions = TextOptions()
    reasoning: ReasoningOptions = ReasoningOptions()
    max_output_tokens: int | None = Field(None, ge=1)

    include: Annotated[tuple[Annotated[str, AfterValidator(_check_include)], ...], *LIST] = ()
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    truncation: Annotated[Literal["disabled"], BeforeValidator(_check_truncation)] = "disabled"
    metadata: Annotated[dict[str, str], AfterValidator(_check_labels)] = Field(default_factory=dict)
    stream: bool = False

    reasoning_budget: int | None = Field(None, ge=0)
    apply_defaults: bool = Field(False, alias=APPLY_DEFAULTS)
    chat_template_kwargs: JsonObject = Field(default_factory=dict)
    include_timings: bool = False
    prompt_template: str | None = None

    @model_validator(mode="after")
    def _check_logprobs(self) -> Self:
        if self.top_logprobs and LOGPROBS not in self.include:
            raise InvalidRequest(f"top_logprobs needs {LOGPROBS} in include", param="top_logprobs")
        return self


def parse_responses_request(body: bytes, limits: Limits) -> ResponsesRequest:
    """The request in the body of a POST.

    Raises TooLarge, or InvalidRequest with the path of the field that is to blame. Never anything
    else, whatever the bytes are.
    """
    data = read_object(body, limits)
    check_count(data, "input", limits.max_messages)
    check_count(data, "tools", limits.max_tools)
    refuse_unsupported(data, REFUSED | EXTENSIONS)
    return validated(ResponsesRequest, data)
