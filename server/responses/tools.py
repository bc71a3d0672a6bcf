"""Tools of a response's request: functions and custom tools, in the flat form of this API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from server.wire.base import Wire, clipped, wrong
from server.wire.body import JsonObject
from server.wire.tools import APPLY_DEFAULTS, FunctionDefinition


def _check_deferred(deferred: bool) -> bool:
    if deferred:
        raise wrong("is not supported, there is no tool search: every tool is shown")
    return deferred


def _check_callers(callers: Any) -> Any:
    if isinstance(callers, list) and callers and "direct" not in callers:
        raise wrong("must have 'direct': no program calls tools here")
    return callers


class _Callable(Wire):
    """What all tools may say about how they are called, in the one way that there is."""

    defer_loading: Annotated[bool, AfterValidator(_check_deferred)] = False
    allowed_callers: Annotated[Any, BeforeValidator(_check_callers)] = None


class FunctionTool(FunctionDefinition, _Callable):
    """`output_schema` and `async` are not read: what a result looks like is its sender's matter."""

    type: Literal["function"]
    strict: bool = True

    def as_chat(self) -> JsonObject:
        shown = self.as_shown()
        kind = shown.pop("type")
        return {"type": kind, "function": {**shown, APPLY_DEFAULTS: self.apply_defaults}}

    def as_shown(self) -> JsonObject:
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": self.strict,
        }


class TextInput(Wire):
    type: Literal["text"]


class GrammarInput(Wire):
    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: str


def _kind(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>" if isinstance(kind, str) else None


InputFormat = Annotated[
    Annotated[TextInput, Tag("<text>")] | Annotated[GrammarInput, Tag("<grammar>")],
    Discriminator(
        _kind, custom_error_type="wrong", custom_error_message="must be of type text or grammar"
    ),
]


class CustomTool(_Callable):
    type: Literal["custom"]
    name: str
    description: str = ""
    format: InputFormat = TextInput(type="text")

    def as_chat(self) -> JsonObject:
        shown = self.as_shown()
        if isinstance(self.format, GrammarInput):
            grammar = {"syntax": self.format.syntax, "definition": self.format.definition}
            shown["format"] = {"type": "grammar", "grammar": grammar}
        return {"type": shown.pop("type"), "custom": shown}

    def as_shown(self) -> JsonObject:
        return {
            "type": "custom",
            "name": self.name,
            "description": self.description,
            "format": self.format.model_dump(),
        }


def _check_kind(value: Any) -> Any:
    """Name the hosted tool that is asked for, of which there are a dozen and more each year."""
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in ("function", "custom"):
        raise wrong(
            f"a tool of type {clipped(kind, 60)!r} is not supported: this server runs no tools,"
            " it offers functions and custom tools to the model for the client to run"
        )
    return value


Tool = Annotated[
    Annotated[
        Annotated[FunctionTool, Tag("<function>")] | Annotated[CustomTool, Tag("<custom>")],
        Discriminator(
            _kind,
            custom_error_type="wrong",
            custom_error_message="must be an object with the type function or custom",
        ),
    ],
    BeforeValidator(_check_kind),
]
