"""`response_format` of a chat request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from server.wire.base import Wire, wrong
from server.wire.body import JsonObject
from server.wire.schemas import NotASchema, as_schema


def _read_schema(value: Any) -> JsonObject:
    try:
        return as_schema(value)
    except NotASchema as exc:
        raise wrong(str(exc)) from None


Schema = Annotated[JsonObject, BeforeValidator(_read_schema)]


class TextFormat(Wire):
    type: Literal["text"]


class JsonObjectFormat(Wire):
    """Any JSON object, or one that satisfies `schema`, as some local servers allow to say."""

    type: Literal["json_object"]
    schema_: Schema | None = Field(None, alias="schema")


class NamedSchema(Wire):
    """`name` and `description` are labels; `strict` is accepted, the schema is always obeyed."""

    name: str = ""
    description: str = ""
    strict: bool = False
    schema_: Schema = Field(alias="schema")


class JsonSchemaFormat(Wire):
    type: Literal["json_schema"]
    json_schema: NamedSchema


def _kind(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if kind in ("text", "json_object", "json_schema") else None


ResponseFormat = Annotated[
    Annotated[TextFormat, Tag("<text>")]
    | Annotated[JsonObjectFormat, Tag("<json_object>")]
    | Annotated[JsonSchemaFormat, Tag("<json_schema>")],
    Discriminator(
        _kind,
        custom_error_type="wrong",
        custom_error_message="must be of type text, json_object or json_schema",
    ),
]


def schema_of(wanted: TextFormat | JsonObjectFormat | JsonSchemaFormat | None) -> JsonObject | None:
    """The schema that a text must satisfy, or None for free text."""
    if isinstance(wanted, JsonSchemaFormat):
        return wanted.json_schema.schema_
    if isinstance(wanted, JsonObjectFormat):
        return {"type": "object"} if wanted.schema_ is None else wanted.schema_
    return None
