"""Answers made of the right ones: right, and wrong in one of several ways."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from prompts.bench.cases import Call, Case, Language

KINDS = (
    "right", "wrong_value", "missing", "extra", "wrong_type", "wrong_name", "more_calls",
    "fewer_calls", "shuffled", "case_and_spaces", "no_optional", "integer_for_float",
)  # fmt: skip


def right_calls(case: Case, draw: random.Random) -> list[Call]:
    """One of the right answers to a case that needs calls."""
    calls = []
    for expected in case.expected:
        arguments: dict[str, Any] = {}
        for name, accepted in expected.accepted.items():
            values = [one for one in accepted if one != ""]
            if not values or ("" in accepted and draw.random() < 0.3):
                continue
            described = case.types[expected.name].get("properties", {}).get(name, {})
            value = plain(draw.choice(values), described.get("type") in ("dict", "HashMap"))
            arguments[name] = written(value, described, case.language)
        calls.append(Call(expected.name, arguments))
    return calls


def plain(value: Any, is_object: bool) -> Any:
    """A value out of an accepted one: inside objects each member has a list of them."""
    if isinstance(value, dict):
        if not all(isinstance(inner, list) for inner in value.values()):
            return value  # objects deeper down are compared as they are
        members = {key: [one for one in inner if one != ""] for key, inner in value.items()}
        return {key: plain(inner[0], True) for key, inner in members.items() if inner}
    if isinstance(value, list):
        return [plain(one, is_object) for one in value]
    return value


def written(value: Any, described: dict[str, Any], language: Language) -> Any:
    """In Java and JavaScript a value is a text in the language's notation."""
    if language == "python":
        return value
    word = described.get("type", "any")
    if isinstance(value, str):
        return value
    if language == "javascript":
        return json.dumps(value) + ("n" if word == "Bigint" else "")
    if isinstance(value, list):
        inner = ", ".join(json.dumps(one) for one in value)
        if word == "Array":
            return f"new Object[]{{{inner}}}"
        return f"new ArrayList<Object>(Arrays.asList({inner}))"
    if isinstance(value, dict):
        puts = " ".join(f'put("{key}", {json.dumps(one)});' for key, one in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    return json.dumps(value) + {"long": "L", "float": "f"}.get(word, "")


def mutations(case: Case, draw: random.Random) -> Iterator[tuple[str, list[Call]]]:
    """An answer of each kind that can be made of the case's right one."""
    for kind in KINDS:
        made = _mutated(kind, case, right_calls(case, draw), draw)
        if made is not None:
            yield kind, made


def _mutated(kind: str, case: Case, calls: list[Call], draw: random.Random) -> list[Call] | None:
    at = draw.randrange(len(calls))
    call = calls[at]
    match kind:
        case "right":
            return calls
        case "more_calls":
            return [*calls, calls[0]]
        case "fewer_calls":
            return calls[1:]
        case "shuffled":
            return draw.sample(calls, len(calls)) if len(calls) > 1 else None
        case "wrong_name":
            return _with(calls, at, replace(call, name=call.name + "_x"))
        case "extra":
            return _with(calls, at, Call(call.name, {**call.arguments, "not_there": 1}))
        case "no_optional":
            required = case.types[call.name].get("required", [])
            kept = {name: call.arguments[name] for name in required if name in call.arguments}
            return _with(calls, at, Call(call.name, kept))
    if not call.arguments:
        return None
    name = draw.choice(list(call.arguments))
    value = call.arguments[name]
    rest = {key: one for key, one in call.arguments.items() if key != name}
    if kind == "missing":
        return _with(calls, at, Call(call.name, rest))
    changed = _changed(kind, value, draw)
    return _with(calls, at, Call(call.name, {**call.arguments, name: changed}))


def _with(calls: list[Call], at: int, call: Call) -> list[Call]:
    return [*calls[:at], call, *calls[at + 1 :]]


def _changed(kind: str, value: Any, draw: random.Random) -> Any:
    if kind == "wrong_type":
        others: list[Any] = ["7", 7, 7.5, True, [], {}, None]
        return draw.choice([one for one in others if one != value])
    if kind == "integer_for_float" and isinstance(value, int | float):
        return int(value) if isinstance(value, float) else float(value)
    match value:
        case bool():
            return not value if kind == "wrong_value" else value
        case int() | float():
            return value + 1 if kind == "wrong_value" else value
        case str() if kind == "case_and_spaces":
            return f" {value.upper()}-".replace('"', "'")
        case str():
            return value + "x" if kind == "wrong_value" else value
        case [first, *rest]:
            return draw.choice([[*rest, first], [_changed(kind, first, draw), *rest], rest])
        case dict() if value:
            key = draw.choice(list(value))
            return {**value, key: _changed(kind, value[key], draw)}
    return value
