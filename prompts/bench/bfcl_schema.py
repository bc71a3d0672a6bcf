"""Functions of BFCL as OpenAI tools: the data set's words for types as JSON Schema.

Parameters of Java and JavaScript functions are texts in that language's notation, as the
leaderboard asks for them, so that answers can be compared with its own.
"""

from __future__ import annotations

import json
from typing import Any

from prompts.bench.cases import JsonObject, Language
from server.errors import SetupError

JSON_TYPES = {
    "any": "string", "array": "array", "bool": "boolean", "boolean": "boolean", "dict": "object",
    "double": "number", "float": "number", "integer": "integer", "list": "array", "long": "integer",
    "number": "number", "object": "object", "string": "string", "tuple": "array",
}  # fmt: skip
LANGUAGE_NAMES = {"python": "Python 3", "java": "Java 8", "javascript": "JavaScript"}
# `optional` is no keyword; a parameter is optional by not being in `required`.
_KEPT = (
    "description", "default", "enum", "format", "minItems", "maxItems", "minimum", "maximum",
    "required",
)  # fmt: skip


def as_tool(function: JsonObject, language: Language) -> JsonObject:
    """A function of the data set as the API takes it. Raises SetupError for an unknown type."""
    parameters = function["parameters"]
    one = _as_text if language != "python" else _as_schema
    schema: JsonObject = {
        "type": "object",
        "properties": {
            name: one(inner, language) for name, inner in parameters["properties"].items()
        },
    }
    if parameters.get("required"):
        schema["required"] = parameters["required"]
    description = function["description"]
    if language != "python":
        description += f" (a function of {LANGUAGE_NAMES[language]})"
    inner = {"name": function["name"], "description": description, "parameters": schema}
    return {"type": "function", "function": inner}


def _as_schema(described: JsonObject, language: Language) -> JsonObject:
    word = described.get("type")
    if word not in JSON_TYPES:
        raise SetupError(f"BFCL has a type {word!r} that is not known here")
    schema: JsonObject = {"type": JSON_TYPES[word]}
    schema |= {name: described[name] for name in _KEPT if name in described}
    if not schema.get("required"):
        schema.pop("required", None)
    if schema["type"] == "object" and isinstance(described.get("properties"), dict):
        schema["properties"] = {
            name: _as_schema(inner, language) for name, inner in described["properties"].items()
        }
    if schema["type"] == "array" and isinstance(described.get("items"), dict):
        schema["items"] = _as_schema(described["items"], language)
    return schema


def _as_text(described: JsonObject, language: Language) -> JsonObject:
    """A parameter whose value is written in the language's own notation, inside a JSON text."""
    word, name = described["type"], LANGUAGE_NAMES[language]
    notes = [described.get("description", ""), f"Written as in {name}, type {word}."]
    items: Any = described.get("items")
    if isinstance(items, dict) and items.get("type"):
        notes.append(f"Its elements are of type {items['type']}.")
    if described.get("properties"):
        notes.append(f"Its members: {json.dumps(described['properties'], ensure_ascii=False)}")
    return {"type": "string", "description": " ".join(filter(None, notes))}
