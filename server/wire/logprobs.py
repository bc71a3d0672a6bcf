"""Log-probabilities of an answer as they go over the wire."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import TypedDict

from server.events import ScoredToken, TokenLogprob


class TokenEntry(TypedDict):
    """`token` is its text, with U+FFFD for part of a character; `bytes` are always right."""

    token: str
    logprob: float
    bytes: list[int]


class ContentEntry(TokenEntry):
    top_logprobs: list[TokenEntry]


class ChoiceLogprobs(TypedDict):
    content: list[ContentEntry]


def choice_logprobs(tokens: Iterable[ScoredToken]) -> ChoiceLogprobs:
    return {
        "content": [
            {**_entry(one.chosen), "top_logprobs": [_entry(other) for other in one.top]}
            for one in tokens
        ]
    }


def _entry(one: TokenLogprob) -> TokenEntry:
    return {
        "token": one.piece.decode("utf-8", "replace"),
        "logprob": one.logprob,
        "bytes": list(one.piece),
    }
