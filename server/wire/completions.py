"""The request and the answers of `/v1/completions`: a raw prompt, no messages, no template."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import TypedDict

from server.errors import InvalidRequest
from server.events import FinishReason
from server.wire.answer_format import AnswerFields
from server.wire.base import validated, wrong
from server.wire.body import Limits, read_object
from server.wire.chat import StreamOptions
from server.wire.extent import EndFields, check_end
from server.wire.fields import ALIASES, CONSTRAINTS, EXTENSIONS, Refused, refuse_unsupported
from server.wire.replies import TokenUsage
from server.wire.sampling import SamplingFields

MAX_CHOICES = 128
DEFAULT_MAX_TOKENS = 16  # OpenAI's; an answer that must be JSON has all the room there is

_HONOURED = ALIASES | {"best_of", "echo"}
REFUSED = {
    **{name: one for name, one in (EXTENSIONS | CONSTRAINTS).items() if name not in _HONOURED},
    "add_special_tokens": Refused("a text begins as the model's prompts do", (True,)),
    "logprobs": Refused("log probabilities are not returned", (False,)),
    "suffix": Refused("the model only continues a text", ("",)),
    "tools": Refused("ask /v1/chat/completions for calls", ([],)),
}
"""Fields that would change the answer and that nothing here honours."""

Prompt = str | tuple[int, ...]


def _read_prompt(value: Any) -> Any:
    """One prompt or a list of them, each a text or the ids of its tokens."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value:
        raise wrong("must be a text, a list of token ids, or a list of such prompts")
    if isinstance(value[0], int):
        return (_token_ids(value),)
    if len(value) > MAX_CHOICES:
        raise wrong(f"has {len(value)} prompts, at most {MAX_CHOICES} are taken")
    return tuple(one if isinstance(one, str) else _token_ids(one) for one in value)


def _token_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise wrong("must be a text, a list of token ids, or a list of such prompts")
    return tuple(value)


class CompletionRequest(SamplingFields, AnswerFields, EndFields):
    """`parse_special`: text such as `<|im_start|>` in a prompt is the model's special token.

    A raw prompt is the model's whole input, which its writer is trusted with: so it is by default.
    `best_of` may only repeat `n`. `echo` puts the prompt before the answer.
    """

    model: str = Field(min_length=1)
    prompt: Annotated[
        tuple[Prompt, ...],
        BeforeValidator(
            _read_prompt,
            json_schema_input_type=str | list[str] | list[int] | list[list[int]],
        ),
    ]
    max_tokens: int | None = Field(None, ge=1)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    best_of: int | None = Field(None, ge=1, le=MAX_CHOICES)
    echo: bool = False
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    parse_special: bool = True

    @model_validator(mode="after")
    def _check_choices(self) -> Self:
        if len(self.prompt) * self.n > MAX_CHOICES:
            raise InvalidRequest(
                f"{len(self.prompt)} prompts times n are more than {MAX_CHOICES} choices", param="n"
            )
        if self.best_of not in (None, self.n):
            raise InvalidRequest(
                "best_of is not supported: every answer is returned, as many as n says",
                param="best_of",
                code="unsupported_parameter",
            )
        check_end(
            self,
            is_text=self.answer_schema is None,
            has_stops=bool(self.stop),
            token_limit=self.token_limit,
        )
        return self

    @property
    def token_limit(self) -> int | None:
        """Most tokens of each answer, None for as many as there is room."""
        if self.max_tokens is None and self.answer_schema is None:
            return DEFAULT_MAX_TOKENS
        return self.max_tokens


def parse_completion_request(body: bytes, limits: Limits) -> CompletionRequest:
    """Raises TooLarge, or InvalidRequest with the path of the field that is to blame."""
    data = read_object(body, limits)
    refuse_unsupported(data, REFUSED)
    return validated(CompletionRequest, data)


class TextChoice(TypedDict):
    index: int
    text: str
    logprobs: None
    finish_reason: FinishReason | None


class TextCompletion(TypedDict):
    """The plain answer, and each chunk of a stream: there `text` is what is new."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: NotRequired[TokenUsage]


def text_choice(index: int, text: str, finish_reason: FinishReason | None) -> TextChoice:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}
