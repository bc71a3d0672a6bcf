"""`response_format`, and what other local servers have in its place."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from server.errors import InvalidRequest
from server.wire.base import Wire, wrong
from server.wire.body import JsonObject, parse_json
from server.wire.schemas import NotASchema, as_schema

MAX_DEPTH = 64

_NO_OTHERS = ("choice", "grammar", "regex", "structural_tag", "whitespace_pattern")


def _read_schema(value: Any) -> JsonObject:
    try:
        return as_schema(value)
    except NotASchema as exc:
        raise wrong(str(exc)) from None


def _read_text(value: Any) -> Any:
    """A schema may be sent as its JSON text."""
    try:
        return parse_json(value, MAX_DEPTH) if isinstance(value, str) else value
    except ValueError:
        raise wrong("must be a JSON Schema, or the text of one") from None


Schema = Annotated[JsonObject, BeforeValidator(_read_schema)]
SchemaOrText = Annotated[
    Schema, BeforeValidator(_read_text, json_schema_input_type=JsonObject | str)
]


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


class StructuredOutputs(Wire):
    """vLLM's field: one schema, or any object."""

    json_: SchemaOrText | None = Field(None, alias="json")
    json_object: bool = False

    @model_validator(mode="before")
    @classmethod
    def _no_others(cls, data: Any) -> Any:
        for name in _NO_OTHERS:
            if isinstance(data, dict) and data.get(name) is not None:
                raise wrong(f"{name} is not supported, only json and json_object are")
        return data


def schema_of(wanted: TextFormat | JsonObjectFormat | JsonSchemaFormat | None) -> JsonObject | None:
    """The schema that a text must satisfy, or None for free text."""
    if isinstance(wanted, JsonSchemaFormat):
        return wanted.json_schema.schema_
    if isinstance(wanted, JsonObjectFormat):
        return {"type": "object", **(wanted.schema_ or {})}
    return None


class AnswerFields(Wire):
    """`guided_json` and `structured_outputs` are vLLM's, `json_schema` is llama-server's."""

    response_format: ResponseFormat | None = None
    guided_json: SchemaOrText | None = None
    json_schema: SchemaOrText | None = None
    structured_outputs: StructuredOutputs | None = None

    @model_validator(mode="after")
    def _check_answer(self) -> Self:
        paths = [path.partition(".")[0] for path in self._schemas()]
        if len(paths) > 1:
            raise InvalidRequest(f"{paths[0]} and {paths[1]} exclude each other", param=paths[1])
        return self

    @property
    def answer_schema(self) -> JsonObject | None:
        """What a text answer must satisfy, or None for free text."""
        return next(iter(self._schemas().values()), None)

    @property
    def answer_path(self) -> str:
        """Where the request has that schema; the usual place if it has none."""
        return next(iter(self._schemas()), "response_format.json_schema.schema")

    def _schemas(self) -> dict[str, JsonObject]:
        structured = self.structured_outputs or StructuredOutputs()
        anything = {"type": "object"} if structured.json_object else None
        by_path = {
            _path_of(self.response_format): schema_of(self.response_format),
            "guided_json": self.guided_json,
            "json_schema": self.json_schema,
            "structured_outputs.json": structured.json_,
            "structured_outputs.json_object": anything,
        }
        return {path: schema for path, schema in by_path.items() if schema is not None}


def _path_of(wanted: TextFormat | JsonObjectFormat | JsonSchemaFormat | None) -> str:
    named = isinstance(wanted, JsonSchemaFormat)
    return "response_format.json_schema.schema" if named else "response_format.schema"
