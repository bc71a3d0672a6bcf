from __future__ import annotations

import json
from typing import Any

import pytest

from server.errors import CallwrightError, InvalidRequest
from server.responses.request import ResponsesRequest, parse_responses_request
from tests.wire.builders import LIMITS

FUNCTION = {"type": "function", "name": "look", "parameters": {}}
CUSTOM = {"type": "custom", "name": "sql"}


def parsed(**fields: Any) -> ResponsesRequest:
    body = {"model": "m", "input": "Hello.", **fields}
    return parse_responses_request(json.dumps(body).encode(), LIMITS)


def refused(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parsed(**fields)
    return caught.value


def test_a_text_is_one_message_of_the_user() -> None:
    as_item = [{"type": "message", "role": "user", "content": "Hello."}]
    assert parsed() == parsed(input=as_item)


@pytest.mark.parametrize("given", [None, 3, {}, [], ["x"], True])
def test_an_input_is_a_text_or_items(given: Any) -> None:
    assert str(refused(input=given).param).startswith("input")


@pytest.mark.parametrize("kind", ["web_search", "file_search", "mcp", "code_interpreter", "shell"])
def test_a_tool_that_a_server_runs_is_refused_by_its_name(kind: str) -> None:
    error = refused(tools=[FUNCTION, {"type": kind, "server_label": "x"}])
    assert error.param == "tools[1]"
    assert kind in error.message


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "function", "function": {"name": "look"}}, "tools[0].name"),
        ({"type": "function", "name": "a b"}, "tools[0].name"),
        ({**FUNCTION, "parameters": "none"}, "tools[0].parameters"),
        ({**FUNCTION, "parameters": {"properties": {"a": 3}}}, "tools[0].parameters"),
        ({**FUNCTION, "defer_loading": True}, "tools[0].defer_loading"),
        ({**FUNCTION, "allowed_callers": ["programmatic"]}, "tools[0].allowed_callers"),
        ({"type": "custom"}, "tools[0].name"),
        ({**CUSTOM, "format": {"type": "grammar", "syntax": "bnf", "definition": "x"}},
         "tools[0].format.syntax"),
        ({**CUSTOM, "format": {"type": "video"}}, "tools[0].format"),
        ({"name": "look"}, "tools[0]"),
        (3, "tools[0]"),
    ],
)  # fmt: skip
def test_a_tool_that_will_not_do_is_named_with_its_place(tool: Any, param: str) -> None:
    assert refused(tools=[tool]).param == param


def test_what_a_tool_may_say_beside_that() -> None:
    harmless = {"defer_loading": False, "allowed_callers": ["direct"], "output_schema": {}}
    [tool] = parsed(tools=[{**FUNCTION, **harmless}]).tools
    assert tool.as_chat() == parsed(tools=[FUNCTION]).tools[0].as_chat()


def test_tools_are_shown_as_they_hold() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
    shown = [
        tool.as_shown() for tool in parsed(tools=[FUNCTION, {**CUSTOM, "format": grammar}]).tools
    ]
    assert shown[0]["strict"] is True
    assert shown[1] == {**CUSTOM, "description": "", "format": grammar}


@pytest.mark.parametrize(
    "entry",
    ["file_search_call.results", "web_search_call.action.sources", "everything", "x" * 5000],
)
def test_what_cannot_be_included_is_refused_by_entry(entry: str) -> None:
    error = refused(include=["reasoning.encrypted_content", entry])
    assert error.param == "include[1]"
    assert entry[:60] in error.message
    assert len(error.message) < 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"truncation": "auto"}, "truncation"),
        ({"truncation": "maybe"}, "truncation"),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
        ({"reasoning": {"generate_summary": "concise"}}, "reasoning.generate_summary"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"reasoning": {"context": "all_turns"}}, "reasoning.context"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"text": {"verbosity": "loud"}}, "text.verbosity"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"top_logprobs": 21, "include": ["message.output_text.logprobs"]}, "top_logprobs"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 2.5}, "temperature"),
        ({"store": "yes"}, "store"),
        ({"instructions": ["x"]}, "instructions"),
        ({"previous_response_id": 3}, "previous_response_id"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"metadata": {"x" * 65: ""}}, "metadata"),
        ({"tools": [FUNCTION] * 21}, "tools"),
        ({"input": [{"role": "user", "content": ""}] * 51}, "input"),
        ({"stream": 1}, "stream"),
    ],
)  # fmt: skip
def test_a_value_that_will_not_do_is_refused_with_its_path(
    fields: dict[str, Any], param: str
) -> None:
    assert refused(**fields).param == param


def test_values_that_ask_for_what_is_done_anyway() -> None:
    said = {
        "truncation": "disabled",
        "reasoning": {"summary": "auto", "context": "auto", "mode": "standard"},
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "metadata": {},
    }
    made = parsed(**said)
    assert made.reasoning.summary == "auto"
    assert made.model_copy(update={"reasoning": parsed().reasoning}) == parsed()
    assert parsed(**dict.fromkeys(said)) == parsed()  # null is absent


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"model": "m"}', b"[" * 500])
def test_whatever_the_bytes_are_the_error_is_one_of_ours(body: bytes) -> None:
    with pytest.raises(CallwrightError):
        parse_responses_request(body, LIMITS)
