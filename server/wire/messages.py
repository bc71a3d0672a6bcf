"""Messages of a chat request: texts joined, arguments parsed, whatever spelling a client chose."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails
from typing_extensions import TypedDict

from server.wire.base import LIST, Wire, clipped, wrong
from server.wire.body import JsonObject, parse_json
from server.wire.custom import INPUT

MAX_ARGUMENT_DEPTH = 64
MAX_CALLS = 1024

_NOT_TEXT = {
    "image_url": "image",
    "image": "image",
    "input_image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "file": "file",
    "input_file": "file",
    "video_url": "video",
    "video": "video",
}


def read_kind(kind: Any) -> Any:
    """Absent and "" mean a function."""
    return "function" if kind == "" else kind


def read_arguments(value: Any) -> Any:
    """An object for JSON text of one, for "" and for null; other text as it is.

    A call once cut or garbled stays in a client's history, so broken text is no error.
    """
    if isinstance(value, dict):
        return value
    if not isinstance(value, str):
        raise wrong("must be a text with a JSON object, or an object")
    if not value.strip():
        return {}
    try:
        parsed = parse_json(value, MAX_ARGUMENT_DEPTH)
    except ValueError:
        return value
    if parsed is None:
        return {}
    return parsed if isinstance(parsed, dict) else value


def read_content(value: Any) -> Any:
    """Text as it is; text parts joined without anything between them."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong("must be a text or a list of text parts")
    return "".join(_part_text(part, index) for index, part in enumerate(value))


def _part_text(part: Any, index: int) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind in _NOT_TEXT:
        raise _wrong_part(
            index, f"{_NOT_TEXT[kind]} parts are not supported, this model reads text only"
        )
    if kind not in ("text", "refusal"):
        said = f"of type {clipped(kind, 40)!r}" if isinstance(kind, str) else "without a type"
        raise _wrong_part(index, f"a part {said} is not supported, only text parts are")
    text = part.get(kind)
    if not isinstance(text, str):
        raise _wrong_part(index, f"must have a text in {kind!r}")
    return text


def _wrong_part(index: int, message: str) -> ValidationError:
    """An error one step below the content, which pydantic joins to the path so far."""
    details = InitErrorDetails(type=wrong(message), loc=(index,), input=None)
    return ValidationError.from_exception_data("content", [details])


FunctionKind = Annotated[Literal["function"], BeforeValidator(read_kind)]


class TextPart(TypedDict):
    type: Literal["text"]
    text: str


Content = Annotated[
    str, BeforeValidator(read_content, json_schema_input_type=str | list[TextPart] | None)
]
Arguments = Annotated[JsonObject | str, BeforeValidator(read_arguments)]


class WireFunction(Wire):
    name: str = Field(min_length=1)
    arguments: Arguments = Field(default_factory=dict)


class FunctionCall(Wire):
    """A call in the history. The id may be foreign, repeated or empty."""

    id: str = ""
    type: FunctionKind = "function"
    function: WireFunction

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def arguments(self) -> JsonObject | str:
        return self.function.arguments


class WireInput(Wire):
    name: str = Field(min_length=1)
    input: str = ""


class CustomCall(Wire):
    """A call of a custom tool in the history: for the model, one with the argument `input`."""

    id: str = ""
    type: Literal["custom"]
    custom: WireInput

    @property
    def name(self) -> str:
        return self.custom.name

    @property
    def arguments(self) -> JsonObject | str:
        return {INPUT: self.custom.input}


def _kind_of_call(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "<custom>" if kind == "custom" else "<function>"


WireCall = FunctionCall | CustomCall
_AnyCall = Annotated[
    Annotated[FunctionCall, Tag("<function>")] | Annotated[CustomCall, Tag("<custom>")],
    Discriminator(_kind_of_call),
]


class WireMessage(Wire):
    """One message of the history.

    `name` is read for results only, where it is the tool's; a participant's name has no place in
    the prompts of open models. Of `reasoning_content` and `reasoning` the first is ours.
    """

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = ""
    refusal: str = ""
    reasoning_content: str = ""
    reasoning: str = ""
    tool_calls: Annotated[tuple[_AnyCall, ...], *LIST, Field(max_length=MAX_CALLS)] = ()
    function_call: WireFunction | None = None
    tool_call_id: str = ""
    name: str = ""

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        """Refuse what would change the meaning of the message if it were passed over."""
        if not isinstance(data, dict):
            return data
        if data.get("audio") is not None:
            raise wrong("audio is not supported, this model reads text only")
        if data.get("role") != "assistant" and (
            data.get("tool_calls") or data.get("function_call")
        ):
            raise wrong("only a message of the assistant has tool_calls")
        if not isinstance(data.get("reasoning"), str):  # some send an object beside the text
            return {key: value for key, value in data.items() if key != "reasoning"}
        return data

    @property
    def calls(self) -> tuple[WireCall, ...]:
        """The calls, with the legacy `function_call` as one without an id."""
        if self.function_call is not None and not self.tool_calls:
            return (FunctionCall(function=self.function_call),)
        return self.tool_calls
