from typing import Any

import pytest

from server.wire.history import to_conversation
from server.wire.tools import ToolChoice
from tests.wire.builders import USER, ask, mended, refused, tool

LOOK = {"name": "look", "description": "Look around.", "parameters": {"type": "object"}}
TAKE = {"name": "take"}
BOTH = [LOOK, TAKE]


@pytest.mark.parametrize(
    ("call", "choice"),
    [
        (None, ToolChoice("auto", ("look", "take"), parallel=False)),
        ("auto", ToolChoice("auto", ("look", "take"), parallel=False)),
        ("none", ToolChoice("none")),
        ({"name": "take"}, ToolChoice("required", ("take",), parallel=False)),
    ],
)
def test_functions_are_tools_of_which_one_is_called_at_most(call: Any, choice: ToolChoice) -> None:
    request = ask(functions=BOTH, function_call=call, parallel_tool_calls=True)
    assert request.choice == choice
    assert [one.name for one in request.offered] == ["look", "take"]
    assert request.path_of(1) == "functions[1].parameters"


def test_the_prompt_is_that_of_the_same_tools() -> None:
    legacy = to_conversation(ask(functions=[LOOK]))
    assert legacy == to_conversation(ask(tools=[{"type": "function", "function": LOOK}]))


def test_no_functions_is_nothing_asked_for() -> None:
    for call in (None, "none", "auto"):
        assert ask(functions=[], function_call=call).choice == ToolChoice("none")


def test_what_only_repeats_the_default_may_stand_beside_the_other_way() -> None:
    assert ask(functions=BOTH, tools=[], tool_choice="auto").choice.mode == "auto"
    assert ask(tools=[tool("x")], functions=[], function_call="auto").choice.mode == "auto"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"functions": BOTH, "tools": [tool("x")]}, "functions"),
        ({"functions": BOTH, "tool_choice": "none"}, "tool_choice"),
        ({"functions": BOTH, "tool_choice": {"type": "function", "function": {"name": "look"}}},
         "tool_choice"),
        ({"tools": [tool("x")], "function_call": "none"}, "function_call"),
        ({"tools": [tool("x")], "function_call": {"name": "x"}}, "function_call"),
        ({"function_call": {"name": "look"}}, "function_call"),
        ({"functions": BOTH, "function_call": {"name": "drop"}}, "function_call"),
        ({"functions": BOTH, "function_call": {}}, "function_call.name"),
        ({"functions": BOTH, "function_call": "required"}, "function_call"),
        ({"functions": BOTH, "function_call": 5}, "function_call"),
        ({"functions": [LOOK, LOOK]}, "functions[1].name"),
        ({"functions": [LOOK, {}]}, "functions[1].name"),
        ({"functions": [{"name": "a b"}]}, "functions[0].name"),
        ({"functions": [{"name": "x", "parameters": "y"}]}, "functions[0].parameters"),
        ({"functions": [TAKE] * 21}, "functions"),
        ({"functions": "look"}, "functions"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_by_name(fields: Any, param: str) -> None:
    assert refused(**fields).param == param


def test_calls_and_results_of_functions_in_the_history() -> None:
    said = {"role": "assistant", "content": None,
            "function_call": {"name": "look", "arguments": '{"at": 1}'}}  # fmt: skip
    result = {"role": "function", "name": "look", "content": "a door"}
    _, assistant, answer = mended(USER, said, result)
    [call] = assistant.calls
    assert (call.name, call.arguments) == ("look", {"at": 1})
    assert (answer.role, answer.call_id, answer.content) == ("tool", call.id, "a door")
