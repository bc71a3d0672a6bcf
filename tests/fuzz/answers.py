"""What must hold of every answer, whatever was asked."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx

from tests.driving import assert_satisfies
from tests.lenient import standard
from tests.replies import folded
from tests.serving import parse_stream

# Errors that are no fault of ours: no value was found, and the answer withheld.
INTENDED = {"constraint_failed"}


def check_answer(answer: httpx.Response, asked: Any, seen: Counter[str]) -> None:
    """Raises AssertionError for a fault of the server; counts in `seen` how it ended."""
    seen[str(answer.status_code)] += 1
    if answer.status_code != 200:
        check_error(answer.json(), answer.status_code)
        return
    if not isinstance(asked, dict) or "messages" not in asked:
        return
    if asked.get("stream") is True:
        last = parse_stream(answer.text)[-1]
        if last.event == "error":
            check_error(last.data, 500)
            return
        reply = folded(answer)
    else:
        reply = answer.json()
    for choice in reply["choices"]:
        seen[choice["finish_reason"]] += 1
        check_choice(choice, asked)


def check_error(body: Any, status: int) -> None:
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in error["message"]
    assert status < 500 or error["code"] in INTENDED, error


def check_choice(choice: dict[str, Any], asked: dict[str, Any]) -> None:
    """Every finished call parses, names an offered tool, and satisfies its schema."""
    schemas = {
        tool["function"]["name"]: tool["function"].get("parameters")
        for tool in asked.get("tools") or []
        if tool.get("type") != "custom"
    }
    assert choice["finish_reason"] in ("stop", "length", "tool_calls")
    calls = choice["message"].get("tool_calls", [])
    if choice["finish_reason"] == "tool_calls":
        assert calls
    cut = choice["finish_reason"] == "length"
    for call in calls[:-1] if cut else calls:
        if call["type"] == "custom":
            continue
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        assert name in schemas
        assert isinstance(json.loads(arguments), dict)
        if schemas[name]:
            assert_satisfies(arguments, standard(schemas[name]))
