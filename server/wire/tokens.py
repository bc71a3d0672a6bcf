"""Requests and answers of `/tokenize` and `/detokenize`, in the words of llama-server and vLLM."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator
from typing_extensions import TypedDict

from server.errors import InvalidRequest
from server.wire.base import Wire, validated, wrong
from server.wire.body import Limits, read_object
from server.wire.chat import ChatRequest, parse_chat_request


class TokenizeRequest(Wire):
    """A text to be split into tokens: `content` as in llama-server, or `prompt` as in vLLM.

    `add_special`, in vLLM `add_special_tokens`, puts BOS in front where the model has it; left out,
    it is what the server of that spelling does: false for `content`, true for `prompt`.
    `parse_special`: text such as `<|im_start|>` is the model's special token. `with_pieces`: the
    text of each token too.
    """

    model: str | None = None
    content: str | None = None
    prompt: str | None = None
    add_special: bool | None = None
    add_special_tokens: bool | None = None
    parse_special: bool = True
    with_pieces: bool = False

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if (self.content is None) == (self.prompt is None):
            raise wrong("one of content, prompt and messages must be there, and only one")
        return self

    @property
    def text(self) -> str:
        return (self.content or "") + (self.prompt or "")

    @property
    def adds_bos(self) -> bool:
        given = self.add_special if self.add_special is not None else self.add_special_tokens
        return self.content is None if given is None else given


def parse_tokenize_request(
    body: bytes, limits: Limits, model: str
) -> TokenizeRequest | ChatRequest:
    """A text, or a chat request whose prompt is to be counted. `model` is the one if none is named.

    Raises TooLarge, or InvalidRequest with the path of the field that is to blame.
    """
    data = read_object(body, limits)
    if data.get("messages") is None:
        return validated(TokenizeRequest, data)
    if data.get("content") is not None or data.get("prompt") is not None:
        raise InvalidRequest("one of content, prompt and messages must be there, and only one")
    return parse_chat_request(body, limits, model)


def _read_ids(value: Any) -> Any:
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise wrong("must be a list of token ids")
    return tuple(value)


class DetokenizeRequest(Wire):
    model: str | None = None
    tokens: Annotated[tuple[int, ...], BeforeValidator(_read_ids, json_schema_input_type=list[int])]


def parse_detokenize_request(body: bytes, limits: Limits) -> DetokenizeRequest:
    """Raises TooLarge, or InvalidRequest with the path of the field that is to blame."""
    return validated(DetokenizeRequest, read_object(body, limits))


class Piece(TypedDict):
    """`piece` is a list of bytes where they are no text by themselves."""

    id: int
    piece: str | list[int]


class Tokens(TypedDict):
    tokens: list[int] | list[Piece]
    count: int
    max_model_len: int


class Detokenized(TypedDict):
    """The same text, as llama-server and as vLLM call it."""

    content: str
    prompt: str
