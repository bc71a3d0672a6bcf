from __future__ import annotations

from typing import Any

import pytest

from server.errors import ContextOverflow, InvalidRequest
from server.responses.items import read_items
from server.responses.translate import Translation, to_chat
from tests.responses.test_request import CUSTOM, FUNCTION, parsed
from tests.serving import CITY
from tests.wire.builders import ask

USER = {"role": "user", "content": "Hello."}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1}'}
OTHER = {**CALL, "call_id": "c2"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "12"}
THOUGHT = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
SAID = {"role": "assistant", "content": "Yes."}


def translated(
    *items: dict[str, Any], past: tuple[dict[str, Any], ...] = (), **fields: Any
) -> Translation:
    return to_chat(parsed(**fields), read_items(past), read_items(items))


def messages(*items: dict[str, Any], **fields: Any) -> Any:
    """What the chat request has, in the form in which a client of that API would write it."""
    return translated(*items, **fields).dialogue.messages


def refused(*items: dict[str, Any], **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        translated(*items, **fields)
    return caught.value


def chat_call(id: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": '{"a": 1}'}
    return {"id": id, "type": "function", "function": function}


def test_reasoning_text_and_calls_are_one_turn() -> None:
    turn = {"role": "assistant", "reasoning_content": "Hm.", "content": "Yes."}
    result = {"role": "tool", "tool_call_id": "c1", "content": "12", "name": ""}
    assert messages(USER, THOUGHT, SAID, CALL, OTHER, OUTPUT) == [
        USER,
        {**turn, "tool_calls": [chat_call("c1"), chat_call("c2")]},
        result,
    ]


def test_what_follows_text_or_calls_opens_the_next_turn() -> None:
    assert messages(SAID, SAID) == [SAID, SAID]
    assert [list(one) for one in messages(CALL, THOUGHT, CALL)] == [
        ["role", "tool_calls"],
        ["role", "reasoning_content", "tool_calls"],
    ]
    assert len(messages(SAID, THOUGHT, SAID)) == 2
    assert messages(CALL, SAID) == [
        {"role": "assistant", "tool_calls": [chat_call("c1")], "content": "Yes."}
    ]


def test_reasoning_in_a_row_is_one() -> None:
    assert messages(THOUGHT, THOUGHT, SAID)[0]["reasoning_content"] == "Hm.Hm."


def test_instructions_come_first_then_what_was_before_then_the_input() -> None:
    made = messages(USER, past=(SAID,), instructions="Be brief.")
    assert made == [{"role": "system", "content": "Be brief."}, SAID, USER]


def test_reasoning_alone_at_the_end_is_refused() -> None:
    assert refused(USER, THOUGHT).param == "input[1]"
    assert refused(THOUGHT, past=(SAID, USER)).param == "input[0]"


def test_custom_calls_are_custom_calls() -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"}
    turn, result = messages(call, output)
    inner = {"name": "sql", "input": "SELECT 1"}
    assert turn["tool_calls"] == [{"id": "c1", "type": "custom", "custom": inner}]
    assert (result["role"], result["tool_call_id"]) == ("tool", "c1")


@pytest.mark.parametrize(
    ("fields", "chat"),
    [
        ({}, {}),
        ({"max_output_tokens": 7}, {"max_completion_tokens": 7}),
        ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ({"temperature": 0.5, "top_p": 0.9, "seed": 3, "stop": "x", "logit_bias": {"5": 1}},
         {"temperature": 0.5, "top_p": 0.9, "seed": 3, "stop": "x", "logit_bias": {"5": 1}}),
        ({"reasoning_budget": 5, "min_tokens": 2, "x-callwright-apply-defaults": True},
         {"reasoning_budget": 5, "min_tokens": 2, "x-callwright-apply-defaults": True}),
        ({"chat_template_kwargs": {"a": 1}}, {"chat_template_kwargs": {"a": 1}}),
        ({"text": {"format": {"type": "json_object"}}},
         {"response_format": {"type": "json_object"}}),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": CITY}}},
         {"response_format": {"type": "json_schema",
                              "json_schema": {"name": "x", "schema": CITY}}}),
        ({"tools": [FUNCTION], "tool_choice": "required", "parallel_tool_calls": False},
         {"tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
          "tool_choice": "required", "parallel_tool_calls": False}),
    ],
)  # fmt: skip
def test_fields_mean_what_they_mean_in_chat(fields: dict[str, Any], chat: dict[str, Any]) -> None:
    made = translated(USER, **fields).request
    wanted = ask(**chat)
    for name in type(made).model_fields.keys() - {"tools", "response_format"}:
        assert getattr(made, name) == getattr(wanted, name), name
    assert made.answer_schema == wanted.answer_schema
    assert made.choice == wanted.choice
    assert [tool.shown for tool in made.tools] == [tool.shown for tool in wanted.tools]


def test_a_tool_may_have_its_defaults_applied() -> None:
    made = translated(USER, tools=[{**FUNCTION, "x-callwright-apply-defaults": True}]).request
    assert made.tools[0].apply_defaults
    assert translated(USER, tools=[FUNCTION]).request.tools[0].apply_defaults is None


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        ("none", "none", ()),
        ("auto", "auto", ("look", "sql")),
        ("required", "required", ("look", "sql")),
        ({"type": "function", "name": "look"}, "required", ("look",)),
        ({"type": "custom", "name": "sql"}, "required", ("sql",)),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
         "auto", ("look",)),
    ],
)  # fmt: skip
def test_a_choice_of_tools_is_flat(choice: Any, mode: str, names: tuple[str, ...]) -> None:
    made = translated(USER, tools=[FUNCTION, CUSTOM], tool_choice=choice).request.choice
    assert (made.mode, made.names) == (mode, names)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "none such"}}, "tool_choice"),
        ({"tool_choice": {"type": "web_search_preview"}}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "mode": "all", "tools": []}},
         "tool_choice.mode"),
        ({"tools": [FUNCTION, FUNCTION]}, "tools[1].name"),
        ({"tools": [{**CUSTOM, "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{**CUSTOM, "format": {"type": "grammar", "syntax": "lark", "definition": ""}}]},
         "tools[0].format.definition"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"prompt_template": "../x"}, "prompt_template"),
        ({"tool_call_bias": 101}, "tool_call_bias"),
    ],
)  # fmt: skip
def test_what_chat_refuses_is_told_in_the_words_of_this_api(
    fields: dict[str, Any], param: str
) -> None:
    error = refused(USER, **fields)
    assert error.param == param
    assert "allowed_tools." not in error.message
    assert ".function." not in error.message


@pytest.mark.parametrize(
    ("error", "message", "param"),
    [
        (InvalidRequest("messages[4] answers what?", param="messages[4].tool_call_id"),
         "input[4] answers what?", "input[4].call_id"),
        (InvalidRequest("messages[3].tool_calls[1].function.name: no",
                        param="messages[3].tool_calls[1].function.name"),
         "input[3]: no", "input[3]"),
        (InvalidRequest("messages[3].content: no", param="messages[3].content"),
         "input[1]: no", "input[1]"),
        (InvalidRequest("messages[1].content: no", param="messages[1].content"),
         "previous_response_id: no", "previous_response_id"),
        (InvalidRequest("no", param="tools[2].function.parameters"), "no", "tools[2].parameters"),
        (InvalidRequest("no", param="tools[2].custom.format.grammar.definition"),
         "no", "tools[2].format.definition"),
        (InvalidRequest("no", param="response_format.json_schema.schema"),
         "no", "text.format.schema"),
        (ContextOverflow("too long", param="messages"), "too long", "input"),
        (InvalidRequest("no"), "no", None),
        (InvalidRequest("messages[99] no", param="messages[99]"), "messages[99] no",
         "messages[99]"),
    ],
)  # fmt: skip
def test_places_in_the_chat_request_are_places_in_the_input(
    error: InvalidRequest, message: str, param: str | None
) -> None:
    made = translated(USER, SAID, CALL, OTHER, OUTPUT, past=(USER,), instructions="x")
    assert [message["role"] for message in made.dialogue.messages] == [
        "system", "user", "user", "assistant", "tool",
    ]  # fmt: skip
    told = made.restated(error)
    assert type(told) is type(error)
    assert told.code == error.code
    assert (told.message, told.param) == (message, param)
