"""What an answer consists of, in the order in which it happens.

`output.py` yields these from the bytes of the model, `chat.py` passes them on, `reply.py` writes
them as SSE chunks or folds them into one answer. Text is complete UTF-8: a character is never split
between two events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "tool_calls", "length"]


@dataclass(frozen=True)
class Usage:
    """Token counts. `cached_tokens` of the prompt needed no prefill."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True)
class TokenLogprob:
    """The bytes of a token, and the natural logarithm of its probability."""

    piece: bytes
    logprob: float


@dataclass(frozen=True)
class ScoredToken:
    """A token of the answer, and the most probable ones in its place."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class Logprobs:
    """How likely the model found the tokens that the next visible event was made from.

    Only where a request asks for it. All tokens of the answer come, in order, those of the markup
    around calls too; of a text that a stop text ends, those up to it.
    """

    tokens: tuple[ScoredToken, ...]


@dataclass(frozen=True)
class Reasoning:
    text: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class CallBegins:
    """A call opens. Comes together with its first `CallArguments`, or with `CallEnds`.

    `index` counts from 0; `id` is nine letters or digits. `custom`: it is one of a custom tool, its
    arguments are a text of any kind, and may be empty.
    """

    index: int
    id: str
    name: str
    custom: bool = False


@dataclass(frozen=True)
class CallArguments:
    """More of the arguments' JSON text of the call that `index` opened last, or of its input."""

    index: int
    text: str


@dataclass(frozen=True)
class CallEnds:
    """The call is complete: its arguments parse and satisfy the schema."""

    index: int


@dataclass(frozen=True)
class Finish:
    """The last event. A call without its `CallEnds` before it was cut by the token limit.

    `timings`, where the request asks for them: seconds, tokens and forward passes by name.
    """

    reason: FinishReason
    usage: Usage
    timings: Mapping[str, float] | None = None


Event = Logprobs | Reasoning | Text | CallBegins | CallArguments | CallEnds | Finish
