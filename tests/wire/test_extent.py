from typing import Any

import pytest

from tests.wire.builders import USER, ask, call, made, refused, tool

SAID = {"role": "assistant", "content": "So far"}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fields", "goes_on"),
    [
        ({}, True),
        ({"continue_final_message": True}, True),
        ({"continue_final_message": True, "add_generation_prompt": False}, True),
        ({"add_generation_prompt": False}, True),
        ({"continue_final_message": False}, False),
        ({"add_generation_prompt": True}, False),
        ({"add_generation_prompt": True, "continue_final_message": False}, False),
    ],
)
def test_a_last_message_of_the_assistant_is_gone_on_with_unless_said_otherwise(
    fields: dict[str, bool], goes_on: bool
) -> None:
    assert ask(messages=[USER, SAID], **fields).continues_final == goes_on


@pytest.mark.parametrize("last", [USER, made(call("a"))])
def test_any_other_last_message_is_answered(last: dict[str, Any]) -> None:
    assert not ask(messages=[USER, last]).continues_final
    assert not ask(messages=[USER, last], add_generation_prompt=True).continues_final
    for fields, param in (
        ({"continue_final_message": True}, "continue_final_message"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
    ):
        assert refused(messages=[USER, last], **fields).param == param


@pytest.mark.parametrize("both", [True, False])
def test_going_on_and_beginning_anew_exclude_each_other(both: bool) -> None:
    fields = {"continue_final_message": both, "add_generation_prompt": both}
    assert refused(messages=[USER, SAID], **fields).param == "continue_final_message"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"min_tokens": 1, "stop": "x"}, "min_tokens"),
        ({"min_tokens": 1, "tools": [tool("x")], "tool_choice": "required"}, "min_tokens"),
        ({"min_tokens": 1, "response_format": SCHEMA}, "min_tokens"),
        ({"ignore_eos": True, "response_format": SCHEMA}, "ignore_eos"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"stop_token_ids": 5}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"stop_token_ids": ["x"]}, "stop_token_ids[0]"),
        ({"stop_token_ids": list(range(65))}, "stop_token_ids"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(fields: Any, param: str) -> None:
    assert refused(**fields).param == param


def test_what_asks_for_nothing_passes() -> None:
    fields: dict[str, Any] = {"min_tokens": 0, "ignore_eos": False, "stop_token_ids": []}
    assert ask(**fields, response_format=SCHEMA, stop="x") == ask(response_format=SCHEMA, stop="x")


def test_tools_that_may_be_called_leave_text_possible() -> None:
    assert ask(min_tokens=5, tools=[tool("x")]).min_tokens == 5
