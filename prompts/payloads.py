"""How families write the arguments of a call: as JSON, in tags, or in a notation of their own.

Here they are written, for histories and examples; `server/payloads` has the grammar and the reader
of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]

PLACEHOLDER = re.compile("«([a-z0-9]+)»")


@dataclass(frozen=True)
class Json:
    """One JSON object."""


@dataclass(frozen=True)
class Tags:
    """`arg` once for each argument, with «key» and «value».

    A text is its own value, whatever it contains; every other value is JSON. Where the family says
    which: «isstr» is true for a text, «type» the JSON type.
    """

    arg: str


@dataclass(frozen=True)
class Quoted:
    """Gemma's: `{key:value,…}` with bare keys in alphabetical order, texts between two `quote`s."""

    quote: str


@dataclass(frozen=True)
class Keywords:
    """Python's keyword arguments: `key=value, …`, texts in `quote`s, single or double."""

    quote: str


Payload = Json | Tags | Quoted | Keywords
JSON = Json()


def fill(template: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled, in one pass: a value may contain one."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], template)


def write_arguments(payload: Payload, arguments: JsonObject | str) -> str:
    """The arguments of one call; a text is taken as written already."""
    if isinstance(arguments, str):
        return arguments
    match payload:
        case Json():
            return dumps(arguments)
        case Tags(arg):
            return "".join(_tagged(arg, key, value) for key, value in arguments.items())
        case Quoted(quote):
            return quoted(quote, arguments)
        case Keywords(quote):
            pairs = (f"{key}={python(quote, value)}" for key, value in arguments.items())
            return ", ".join(pairs)


def dumps(value: Any) -> str:
    """JSON as the models were trained on it: one line, raw UTF-8, the order of keys as given."""
    return json.dumps(value, ensure_ascii=False)


def _tagged(arg: str, key: str, value: Any) -> str:
    is_text = isinstance(value, str)
    values = {
        "key": key,
        "value": value if is_text else dumps(value),
        "isstr": dumps(is_text),
        "type": json_type(value),
    }
    return fill(arg, values)


def json_type(value: Any) -> str:
    """The name of a value's type, whole numbers being numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    kinds = ((str, "string"), (int | float, "number"), (Mapping, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "array")


def quoted(quote: str, value: Any) -> str:
    """A value in Gemma's notation."""
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, Mapping):
        pairs = (f"{key}:{quoted(quote, value[key])}" for key in sorted(value, key=alphabetical))
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(quoted(quote, item) for item in value) + "]"
    return dumps(value)


def alphabetical(key: str) -> str:
    """The order of keys in Gemma's notation: capitals make no difference."""
    return key.lower()


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'"}


def python(quote: str, value: Any) -> str:
    """A value as a Python literal; an object is JSON, as the families have it."""
    if isinstance(value, str):
        if quote == '"':
            return dumps(value)
        return quote + "".join(_ESCAPES.get(char, char) for char in value) + quote
    if isinstance(value, list | tuple):
        return "[" + ", ".join(python(quote, item) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return str(value)
    return dumps(value)
