"""Items of an input or an output: what they mean, and how they are kept."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from server.errors import InvalidRequest
from server.wire.base import LIST, Wire, clipped, complaint, wrong
from server.wire.body import JsonObject
from server.wire.ids import new_item_id
from server.wire.messages import read_content

MAX_ID = 256
REFERENCE = "item_reference"

_SEAL = "callwright:"  # what `encrypted_content` that was made here begins with
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
}


def seal(text: str) -> str:
    """Reasoning as one opaque text, for clients that keep nothing else of it.

    It is no secret from its owner, whom `content` shows the same, and so it is not encrypted.
    """
    return _SEAL + base64.urlsafe_b64encode(text.encode()).decode()


def unseal(sealed: str) -> str | None:
    """The reasoning in a sealed text, or None if it was not sealed here."""
    if not sealed.startswith(_SEAL):
        return None
    try:
        return base64.urlsafe_b64decode(sealed.removeprefix(_SEAL)).decode()
    except (binascii.Error, ValueError):
        return None


def _read_parts(value: Any) -> Any:
    """Content as the chat API has it: there a text is a text, whoever wrote it."""
    if not isinstance(value, list):
        return read_content(value)
    return read_content([_as_chat_part(part) for part in value])


def _as_chat_part(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") in ("input_text", "output_text"):
        return {"type": "text", "text": part.get("text")}
    return part


Parts = Annotated[str, BeforeValidator(_read_parts)]


class _Item(Wire):
    """`id` is of no concern to the model; a client may send the one that it was given."""

    id: str = Field("", max_length=MAX_ID)


class MessageItem(_Item):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Parts


class FunctionCallItem(_Item):
    type: Literal["function_call"]
    call_id: str
    name: str = Field(min_length=1)
    arguments: str


class CustomCallItem(_Item):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str = Field(min_length=1)
    input: str


class CallOutputItem(_Item):
    """`name`, of the tool, is read where a call cannot be found by its id."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str = ""
    name: str = ""
    output: Parts


class _ReasoningPart(Wire):
    text: str


class ReasoningItem(_Item):
    type: Literal["reasoning"]
    summary: Annotated[tuple[_ReasoningPart, ...], *LIST] = ()
    content: Annotated[tuple[_ReasoningPart, ...], *LIST] = ()
    encrypted_content: str = ""

    @model_validator(mode="before")
    @classmethod
    def _check_sealed(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("content") or data.get("summary"):
            return data
        sealed = data.get("encrypted_content")
        if isinstance(sealed, str) and sealed and unseal(sealed) is None:
            raise wrong("encrypted_content was not made by this server, so it cannot be read")
        return data

    @property
    def text(self) -> str:
        """The reasoning itself; its summary only where there is nothing more."""
        full = "".join(part.text for part in self.content) or unseal(self.encrypted_content)
        return full or "\n".join(part.text for part in self.summary)


Item = MessageItem | FunctionCallItem | CustomCallItem | CallOutputItem | ReasoningItem


def kind_of(value: Any) -> str:
    """The type of an item. Messages and references may come without one, as in the SDK's types."""
    if not isinstance(value, dict):
        return ""
    kind = value.get("type")
    if kind is None:
        return REFERENCE if "id" in value and "role" not in value else "message"
    return kind if isinstance(kind, str) else ""


def _tag(value: Any) -> str:
    kind = kind_of(value)
    return f"<{kind.replace('custom_tool_call_output', 'function_call_output')}>"


def _check_kind(value: Any) -> Any:
    kind = kind_of(value)
    if isinstance(value, dict) and kind not in _PREFIXES:
        raise wrong(f"an item of type {clipped(kind, 60)!r} is not supported")
    return value


_ITEMS: TypeAdapter[tuple[Item, ...]] = TypeAdapter(
    Annotated[
        tuple[
            Annotated[
                Annotated[
                    Annotated[MessageItem, Tag("<message>")]
                    | Annotated[FunctionCallItem, Tag("<function_call>")]
                    | Annotated[CustomCallItem, Tag("<custom_tool_call>")]
                    | Annotated[CallOutputItem, Tag("<function_call_output>")]
                    | Annotated[ReasoningItem, Tag("<reasoning>")],
                    Discriminator(
                        _tag,
                        custom_error_type="wrong",
                        custom_error_message="must be an item, an object with a type",
                    ),
                ],
                BeforeValidator(_check_kind),
            ],
            ...,
        ],
        *LIST,
    ]
)


def read_items(raw: Sequence[JsonObject]) -> tuple[Item, ...]:
    """Raises InvalidRequest with a path such as `input[2].content[0]`."""
    try:
        return _ITEMS.validate_python(list(raw))
    except ValidationError as exc:
        error = complaint(exc)
        raise InvalidRequest(f"input{error.message}", param=f"input{error.param}") from None


def as_kept(raw: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Items that were read without complaint, as they are listed later: each with an id of its own,
    a type and a status, its text in parts."""
    seen: set[str] = set()
    kept = []
    for item in raw:
        kind = kind_of(item)
        made = {**item, "type": kind}
        given = item.get("id")
        if not given or given in seen:
            made["id"] = new_item_id(_PREFIXES[kind])
        seen.add(made["id"])
        if kind != "reasoning" and not made.get("status"):
            made["status"] = "completed"
        if kind == "message" and isinstance(made.get("content"), str):
            made["content"] = [_part(made["role"], made["content"])]
        kept.append(made)
    return tuple(kept)


def _part(role: str, text: str) -> JsonObject:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}
