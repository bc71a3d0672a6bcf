"""Calls in an answer: whole, or as the deltas of a stream; of functions, custom tools, and legacy
functions, whose one call goes by `function_call`.
"""

from __future__ import annotations

from server.events import CallArguments, CallBegins
from server.wire.replies import Call, CustomCall, Delta, Function


def opening_delta(begun: CallBegins, *, legacy: bool) -> Delta:
    """What opens a call in a stream."""
    if legacy:
        return {"function_call": {"name": begun.name, "arguments": ""}}
    if begun.custom:
        return {
            "tool_calls": [
                {
                    "index": begun.index,
                    "id": begun.id,
                    "type": "custom",
                    "custom": {"name": begun.name, "input": ""},
                }
            ]
        }
    return {
        "tool_calls": [
            {
                "index": begun.index,
                "id": begun.id,
                "type": "function",
                "function": {"name": begun.name, "arguments": ""},
            }
        ]
    }


def further_delta(more: CallArguments, *, custom: bool, legacy: bool) -> Delta:
    """More arguments of the call that was opened last."""
    if legacy:
        return {"function_call": {"arguments": more.text}}
    if custom:
        return {"tool_calls": [{"index": more.index, "custom": {"input": more.text}}]}
    return {"tool_calls": [{"index": more.index, "function": {"arguments": more.text}}]}


def whole_call(begun: CallBegins, arguments: str) -> Call | CustomCall:
    if begun.custom:
        return {
            "id": begun.id,
            "type": "custom",
            "custom": {"name": begun.name, "input": arguments},
        }
    return {"id": begun.id, "type": "function", "function": legacy_call(begun, arguments)}


def legacy_call(begun: CallBegins, arguments: str) -> Function:
    return {"name": begun.name, "arguments": arguments}
