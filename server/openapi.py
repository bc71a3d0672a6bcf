"""The OpenAPI document. Bodies are read by parsers of our own, so it is made from their types here.

Each route brings an `Operation`; `document` puts them together. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from server.wire.replies import ErrorReply

JsonObject = dict[str, Any]
EXTRA = "x-operation"
"""The key under which a route carries its Operation."""

_REF = "#/components/schemas/{model}"
_ERRORS = {
    400: "a field cannot be honoured; `param` is its path",
    401: "a key is needed, and there is none or a wrong one",
    403: "a web page of another origin, or a host name that is not this server's",
    404: "there is no such model",
    408: "the request did not come in time",
    413: "the body is over the limit",
    429: "the queue is full; `Retry-After` says when to come back",
    500: "the answer failed",
    503: "the server is shutting down, or has too many connections",
    504: "the request took longer than the server allows",
}
_OF_EVERY_ROUTE = (403, 500)
_OF_A_BODY = (400, 404, 408, 413, 429, 503, 504)


@dataclass(frozen=True)
class Operation:
    """What the document says of one route.

    `body`, `reply` and `event` are types: of the request's JSON, of the answer's, and of the data
    of each event where the answer is streamed. `media_type` is the one of `reply`. `examples` are
    bodies by name, without the model, which is put in. `named` is an example of what the path
    names, the model where it says nothing; `query` has the schemas of the query's parameters.
    `done`: a stream ends in `[DONE]`.
    """

    summary: str
    description: str = ""
    body: Any = None
    reply: Any = None
    event: Any = None
    media_type: str = "application/json"
    examples: Mapping[str, JsonObject] = field(default_factory=dict)
    keyed: bool = True
    errors: tuple[int, ...] = ()
    named: str = ""
    query: Mapping[str, JsonObject] = field(default_factory=dict)
    done: bool = True

    @property
    def extra(self) -> JsonObject:
        """For `openapi_extra` of a route."""
        return {EXTRA: self}

    @property
    def types(self) -> list[Any]:
        return [kind for kind in (self.body, self.reply, self.event) if kind is not None]


Route = tuple[str, str, Operation]
"""Method, path with `{parameters}`, and what there is to say."""


def document(routes: Sequence[Route], *, model_names: Sequence[str], needs_key: bool) -> JsonObject:
    """The document of these routes."""
    kinds = _unique([ErrorReply, *(kind for *_, one in routes for kind in one.types)])
    refs, schemas = _schemas(kinds)
    paths: dict[str, JsonObject] = {}
    for method, path, operation in routes:
        described = _operation(path, operation, refs, model_names[0])
        described["operationId"] = _operation_id(method, path)
        if needs_key and operation.keyed:
            described["security"] = [{"bearer": []}, {"key": []}]
        paths.setdefault(path, {})[method.lower()] = described
    for operation in (one for *_, one in routes if one.body is not None):
        for name in re.findall(r"schemas/(\w+)", str(refs[operation.body])):
            _name_models(schemas[name], model_names)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Callwright", "version": "1", "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {_error_name(status): _error(status, refs) for status in _ERRORS},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


_ABOUT = (
    "A field that is listed is honoured. One that is not is refused by name where it would change"
    " the answer, and else passed over. null is the same as leaving a field out."
)


def _operation(
    path: str, operation: Operation, refs: Mapping[Any, JsonObject], model: str
) -> JsonObject:
    described: JsonObject = {"summary": operation.summary}
    if operation.description:
        described["description"] = operation.description
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"},
         "example": operation.named or model}
        for name in re.findall(r"\{(\w+)\}", path)
    ] + [
        {"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()
    ]  # fmt: skip
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = _body(operation, refs, model)
    errors = {*_OF_EVERY_ROUTE, *operation.errors}
    errors |= {401} if operation.keyed else set()
    errors |= set(_OF_A_BODY) if operation.body is not None else set()
    described["responses"] = {
        "200": {"description": "the answer", "content": _content(operation, refs)},
        **{
            str(status): {"$ref": f"#/components/responses/{_error_name(status)}"}
            for status in sorted(errors)
        },
    }
    return described


def _body(operation: Operation, refs: Mapping[Any, JsonObject], model: str) -> JsonObject:
    examples = {
        name: {"value": {"model": model, **example}} for name, example in operation.examples.items()
    }
    content = {"schema": refs[operation.body], "examples": examples}
    return {"required": True, "content": {"application/json": content}}


def _content(operation: Operation, refs: Mapping[Any, JsonObject]) -> JsonObject:
    schema = {"type": "string"} if operation.reply is None else refs[operation.reply]
    content: JsonObject = {operation.media_type: {"schema": schema}}
    if operation.event is not None:
        content["text/event-stream"] = {"itemSchema": _event(operation, refs)}
    return content


def _event(operation: Operation, refs: Mapping[Any, JsonObject]) -> JsonObject:
    """One server-sent event, as OpenAPI 3.2 describes them and FastAPI writes them."""
    content = {"anyOf": [refs[operation.event], refs[ErrorReply]]}
    data: JsonObject = {"contentMediaType": "application/json", "contentSchema": content}
    if operation.done:
        data = {"anyOf": [{"const": "[DONE]"}, data]}
    return {
        "type": "object",
        "description": "Sent with `stream: true`. An event named `error` ends a failed stream.",
        "properties": {"event": {"type": "string"}, "data": {"type": "string", **data}},
        "required": ["data"],
    }


def _schemas(kinds: Sequence[Any]) -> tuple[dict[Any, JsonObject], JsonObject]:
    """The schema of each type, a reference where it has a name, and all named ones."""
    adapters: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        (kind, "validation", TypeAdapter(kind)) for kind in kinds
    ]
    made, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    refs = {key: schema for (key, _), schema in made.items()}
    return refs, definitions["$defs"]


def _name_models(schema: JsonObject, names: Sequence[str]) -> None:
    schema["properties"]["model"] = {"type": "string", "enum": list(names)}


def _error(status: int, refs: Mapping[Any, JsonObject]) -> JsonObject:
    described: JsonObject = {
        "description": _ERRORS[status],
        "content": {"application/json": {"schema": refs[ErrorReply]}},
    }
    if status == 429:
        described["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return described


def _error_name(status: int) -> str:
    return f"Error{status}"


def _operation_id(method: str, path: str) -> str:
    return "_".join([method.lower(), *re.findall(r"\w+", path)])


def _unique(kinds: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(kinds))
