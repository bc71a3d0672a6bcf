"""Where an answer begins and how far it goes, in the words of other local servers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from server.errors import InvalidRequest
from server.wire.base import LIST, Wire

MAX_STOP_TOKENS = 64


class EndFields(Wire):
    """`stop_token_ids` end a text, as `stop` does, and are no part of it. `min_tokens` and
    `ignore_eos` keep the model from ending a text. None of them touches a call.
    `request_timeout_s` is the longest that the request may take, in seconds; the server may allow
    less.
    """

    stop_token_ids: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], *LIST, Field(max_length=MAX_STOP_TOKENS)
    ] = ()
    min_tokens: int = Field(0, ge=0)
    ignore_eos: bool = False
    request_timeout_s: float | None = Field(None, gt=0)

    @property
    def keeps_going(self) -> bool:
        return self.ignore_eos or self.min_tokens > 0


class ExtentFields(EndFields):
    """`continue_final_message` and `add_generation_prompt`: whether a last message of the assistant
    is gone on with, which is done where neither says otherwise.
    """

    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None


def check_end(
    fields: EndFields, *, is_text: bool, has_stops: bool, token_limit: int | None
) -> None:
    """`is_text`: the answer may be any text. Raises InvalidRequest for what cannot be done."""
    name = "ignore_eos" if fields.ignore_eos else "min_tokens"
    if fields.keeps_going and not is_text:
        raise InvalidRequest(
            f"{name} is not supported here: a call or JSON ends when it is complete", param=name
        )
    if fields.min_tokens and has_stops:
        raise InvalidRequest(
            "min_tokens is not supported beside stop, which would end the answer before",
            param="min_tokens",
        )
    if token_limit is not None and fields.min_tokens > token_limit:
        raise InvalidRequest(
            f"min_tokens is {fields.min_tokens}, but at most {token_limit} tokens are asked for",
            param="min_tokens",
        )


def continues_final(fields: ExtentFields, *, can_continue: bool) -> bool:
    """Whether the answer goes on with the last message, an assistant's if it `can_continue`.

    Raises InvalidRequest for a demand that the messages do not fit.
    """
    wanted = fields.continue_final_message
    if wanted is not None and wanted == fields.add_generation_prompt:
        raise InvalidRequest(
            "continue_final_message and add_generation_prompt exclude each other",
            param="continue_final_message",
        )
    name = "add_generation_prompt" if wanted is None else "continue_final_message"
    if wanted is None and fields.add_generation_prompt is not None:
        wanted = not fields.add_generation_prompt
    if wanted and not can_continue:
        raise InvalidRequest(
            f"{name}: the last message is none of the assistant that could be gone on with",
            param=name,
        )
    return can_continue if wanted is None else wanted
