"""Whether an answer is what was asked for: a fast wrong answer is no answer."""

from __future__ import annotations

import json
from collections.abc import Sequence

from jsonschema import Draft202012Validator

from server.bench.bodies import Answer, Call
from server.bench.phrases import Tool


def fault(answer: Answer, tools: Sequence[Tool], *, in_text: bool) -> str | None:
    """What is wrong with an answer, in a few words; None if it is what was asked for.

    With tools that is one call of one of them, with arguments that satisfy its schema; `in_text` if
    it was asked for in the form of `response_format`.
    """
    if not tools:
        return None if answer.text.strip() else "empty"
    if answer.cut:
        return "cut at the token limit"
    calls = _written_call(answer.text) if in_text else answer.calls
    if len(calls) != 1:
        return f"{len(calls)} calls" if calls else "no call"
    offered = {tool.name: tool.closed_parameters for tool in tools}
    if calls[0].name not in offered:
        return "a tool that was not offered"
    try:
        arguments = json.loads(calls[0].arguments)
    except ValueError:
        return "arguments that are no JSON"
    if not Draft202012Validator(offered[calls[0].name]).is_valid(arguments):
        return "arguments against the schema"
    return None


def _written_call(text: str) -> tuple[Call, ...]:
    """The call in an answer of the form that `response_format` asks for."""
    try:
        written = json.loads(text)
        return (Call("", str(written["name"]), json.dumps(written["arguments"])),)
    except (ValueError, LookupError, TypeError):
        return ()
