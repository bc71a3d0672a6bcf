"""Custom tools: their input is one text, free or held to a grammar.

To the model such a tool is a function with one argument, `input`: so every family can call it in
its own way. Clients see the input as it is.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from server.wire.base import Wire
from server.wire.body import JsonObject

INPUT = "input"
MAX_GRAMMAR = 64_000  # characters


class GrammarText(Wire):
    """`regex`: the whole input matches it, read as `pattern` in a schema. `lark`: as llguidance."""

    syntax: Literal["lark", "regex"]
    definition: str = Field(min_length=1, max_length=MAX_GRAMMAR)


class FreeFormat(Wire):
    type: Literal["text"] = "text"


class GrammarFormat(Wire):
    type: Literal["grammar"]
    grammar: GrammarText


def _kind(value: Any) -> str | None:
    kind = value.get("type", "text") if isinstance(value, dict) else None
    return f"<{kind}>" if kind in ("text", "grammar") else None


InputFormat = Annotated[
    Annotated[FreeFormat, Tag("<text>")] | Annotated[GrammarFormat, Tag("<grammar>")],
    Discriminator(
        _kind,
        custom_error_type="wrong",
        custom_error_message="must be of type text or grammar",
    ),
]


def shown_parameters(format: FreeFormat | GrammarFormat) -> JsonObject:
    """The schema in which a prompt shows the input."""
    if isinstance(format, FreeFormat):
        return _schema({"type": "string"})
    syntax, definition = format.grammar.syntax, format.grammar.definition
    if syntax == "regex":
        return _schema({"type": "string", "pattern": definition})
    return _schema({"type": "string", "description": f"Text of this grammar:\n{definition}"})


def held_parameters(format: FreeFormat | GrammarFormat) -> JsonObject:
    """The schema that the input is held to. A Lark grammar has no place in one."""
    if isinstance(format, GrammarFormat) and format.grammar.syntax == "regex":
        return _schema({"type": "string", "pattern": f"^(?:{format.grammar.definition})$"})
    return _schema({"type": "string"})


def grammar_of(format: FreeFormat | GrammarFormat, syntax: str) -> str | None:
    """The grammar, if it has one in this syntax."""
    if isinstance(format, GrammarFormat) and format.grammar.syntax == syntax:
        return format.grammar.definition
    return None


def _schema(text: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {INPUT: text},
        "required": [INPUT],
        "additionalProperties": False,
    }
