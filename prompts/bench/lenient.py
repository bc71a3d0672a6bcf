"""Calls in free text, read as leniently as an application would, and what was wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prompts.bench.cases import Call

# What goes wrong with calls that nothing constrains; the last ones also happen to constrained ones.
Failure = Literal[
    "broken_json", "wrong_keys", "arguments_as_text", "unknown_tool", "wrong_type",
    "missing_required", "bad_format", "other_schema", "cut_off",
]  # fmt: skip
NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "action_input")
_DECODER = json.JSONDecoder()
_LOOKS_LIKE_A_CALL = re.compile(r'[{\[]\s*\{?\s*["\']?(?:' + "|".join(NAME_KEYS) + r')["\']?\s*:')


@dataclass(frozen=True)
class Reading:
    """The calls that could be read, and what had to be forgiven or could not be."""

    calls: tuple[Call, ...]
    failures: tuple[Failure, ...]


def read_text(text: str, tools: Collection[str]) -> Reading:
    """Calls as JSON anywhere in a text: bare, in a fence, in tags, one, several or a list.

    Broken JSON and an object without a place for arguments may be anything: they are taken for a
    call only if they name one of the `tools`.
    """
    calls: list[Call] = []
    failures: list[Failure] = []
    at = 0
    while (found := re.compile(r"[{\[]").search(text, at)) is not None:
        try:
            # A slice: an error counts the lines before it.
            value, length = _DECODER.raw_decode(text[found.start() :])
            at = found.start() + length
        except RecursionError:
            break  # nobody reads what is nested as deep
        except ValueError:
            looks = _LOOKS_LIKE_A_CALL.match(text, found.start())
            if looks and any(text.find(f'"{name}"', found.start()) >= 0 for name in tools):
                failures.append("broken_json")
                break  # what follows is inside of it
            at = found.start() + 1
            continue
        for one in value if isinstance(value, list) else [value]:
            read = _read_call(one, tools)
            if read is not None:
                calls.append(read[0])
                failures += read[1]
    return Reading(tuple(calls), tuple(dict.fromkeys(failures)))


def _read_call(value: Any, tools: Collection[str]) -> tuple[Call, list[Failure]] | None:
    """None for what does not name a tool."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("function"), dict):  # as the API writes calls
        inner = _read_call(value["function"], tools)
        return None if inner is None else (inner[0], [*inner[1], "wrong_keys"])
    key = next((one for one in NAME_KEYS if isinstance(value.get(one), str)), None)
    if key is None:
        return None
    failures: list[Failure] = []
    place = next((one for one in ARGUMENT_KEYS if one in value), None)
    if place is None and value[key] not in tools:
        return None
    arguments = value[place] if place else {k: v for k, v in value.items() if k != key}
    if key != "name" or place != "arguments":
        failures.append("wrong_keys")
    if isinstance(arguments, str):
        failures.append("arguments_as_text")
        arguments = _parsed(arguments)
    if not isinstance(arguments, dict):
        failures.append("wrong_type")
        arguments = {}
    return Call(value[key], arguments), failures


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_calls(written: Sequence[tuple[str, str]]) -> Reading:
    """Calls of an API's answer, each a name and arguments as JSON text."""
    calls: list[Call] = []
    failures: list[Failure] = []
    for name, text in written:
        arguments = _parsed(text or "{}")
        if not isinstance(arguments, dict):
            failures.append("broken_json")
            arguments = {}
        calls.append(Call(name, arguments))
    return Reading(tuple(calls), tuple(dict.fromkeys(failures)))


def keyword_failures(keywords: Iterator[str]) -> Iterator[Failure]:
    """The class of failure of each keyword of JSON Schema that was violated."""
    classes: dict[str, Failure] = {
        "type": "wrong_type", "required": "missing_required", "format": "bad_format",
        "pattern": "bad_format",
    }  # fmt: skip
    for keyword in keywords:
        yield classes.get(keyword, "other_schema")
