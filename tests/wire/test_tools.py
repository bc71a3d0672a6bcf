from typing import Any

import pytest

from server.wire.tools import APPLY_DEFAULTS, ToolChoice
from tests.wire.builders import ask, custom, grammar, refused, tool

TWO = [tool("look"), tool("take")]


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize("name", ["stock.count", "get-level", "42", "_", "a" * 128])
def test_names_are_kept_letter_for_letter(name: str) -> None:
    assert ask(tools=[tool(name)]).tools[0].name == name


@pytest.mark.parametrize("name", ["", "a b", "a" * 129, "größe", "a/b", "a\n", 5])
def test_other_names_are_refused(name: Any) -> None:
    error = refused(tools=[tool("look"), tool(name)])
    assert error.param == "tools[1].function.name"
    assert len(error.message) < 500


def test_a_name_that_occurs_twice_is_refused_with_that_name() -> None:
    error = refused(tools=[tool("look"), tool("take"), tool("look")])
    assert error.param == "tools[2].function.name"
    assert "'look'" in error.message


@pytest.mark.parametrize("function", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_tool_without_parameters_takes_none(function: dict[str, Any]) -> None:
    (only,) = ask(tools=[tool("look", strict=True, description=None, **function)]).tools
    assert only.shown == {"type": "object", "properties": {}}
    assert only.description == ""


@pytest.mark.parametrize("schema", ["x", 5, True, ["a"], {"type": "array"}])
def test_what_is_no_schema_of_an_object_is_refused_with_the_tools_name(schema: Any) -> None:
    error = refused(tools=[tool("look"), tool("take", parameters=schema)])
    assert error.param == "tools[1].function.parameters"
    assert "'take'" in error.message


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ({}, "tools"),
        ("x", "tools"),
        ([5], "tools[0]"),
        ([{"type": "function"}], "tools[0].function"),
        ([{"type": "function", "name": "flat"}], "tools[0].function"),
        ([{"type": "custom"}], "tools[0].custom"),
        ([custom("a b")], "tools[0].custom.name"),
        ([custom("c", format={"type": "xml"})], "tools[0].custom.format"),
        ([custom("c", format={"type": "grammar"})], "tools[0].custom.format.grammar"),
        ([custom("c", format=grammar("gbnf", "x"))], "tools[0].custom.format.grammar.syntax"),
        ([custom("c", format=grammar("lark", ""))], "tools[0].custom.format.grammar.definition"),
        ([custom("c"), tool("c")], "tools[1].function.name"),
        ([tool("c"), custom("c")], "tools[1].custom.name"),
        ([tool("c", **{APPLY_DEFAULTS: 1})], f"tools[0].function.{APPLY_DEFAULTS}"),
        ([tool("c", parameters={APPLY_DEFAULTS: "yes"})], "tools[0].function.parameters"),
        ([{"type": "web_search"}], "tools[0].type"),
        ([{"type": "function", "function": {}}], "tools[0].function.name"),
        ([tool("a", description=5)], "tools[0].function.description"),
        ([tool("a", strict="yes")], "tools[0].function.strict"),
    ],
)
def test_a_tool_of_another_shape_is_refused_by_path(tools: Any, param: str) -> None:
    assert refused(tools=tools).param == param


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (None, ToolChoice("auto", ("look", "take"))),
        ("auto", ToolChoice("auto", ("look", "take"))),
        ("required", ToolChoice("required", ("look", "take"))),
        ("none", ToolChoice("none")),
        (named("take"), ToolChoice("required", ("take",), parallel=False)),
        ({"type": "function", "name": "take"}, ToolChoice("required", ("take",), parallel=False)),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [named("take"), named("look")]},
            },
            ToolChoice("required", ("look", "take")),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "take"}],
            },
            ToolChoice("auto", ("take",)),
        ),
    ],
)
def test_every_choice_becomes_one_value(choice: Any, wanted: ToolChoice) -> None:
    assert ask(tools=TWO, tool_choice=choice).choice == wanted


def test_without_parallel_calls_the_answer_ends_after_one() -> None:
    assert ask(tools=TWO).choice.parallel
    assert not ask(tools=TWO, parallel_tool_calls=False).choice.parallel


@pytest.mark.parametrize("tools", [[], None])
@pytest.mark.parametrize("choice", [None, "none", "auto"])
def test_an_empty_list_of_tools_is_no_tools(tools: Any, choice: Any) -> None:
    assert ask(tools=tools, tool_choice=choice).choice == ToolChoice("none")


@pytest.mark.parametrize("choice", ["required", named("look")])
def test_a_call_cannot_be_demanded_without_tools(choice: Any) -> None:
    error = refused(tools=[], tool_choice=choice)
    assert error.param == "tool_choice"
    assert "no tools" in error.message


@pytest.mark.parametrize(
    "choice",
    [
        named("reset_clock"),
        {"type": "allowed_tools", "mode": "auto", "tools": [named("look"), named("reset_clock")]},
    ],
)
def test_an_unknown_name_is_refused_and_the_names_are_listed(choice: Any) -> None:
    error = refused(tools=TWO, tool_choice=choice)
    assert error.param == "tool_choice"
    assert "'reset_clock'" in error.message
    assert "look, take" in error.message


def test_an_unknown_name_among_long_ones_gives_a_short_message() -> None:
    error = refused(tools=[tool(f"{n:0128d}") for n in range(20)], tool_choice=named("x" * 9000))
    assert len(error.message) < 2000
    assert "more" in error.message


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (5, "tool_choice"),
        ({}, "tool_choice"),
        ({"type": "auto"}, "tool_choice"),
        ({"type": "function"}, "tool_choice.function"),
        ({"type": "function", "function": {"name": 5}}, "tool_choice.function.name"),
        ({"type": "custom"}, "tool_choice.custom"),
        ({"type": "custom", "custom": {"name": "look"}}, "tool_choice"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        (
            {"type": "allowed_tools", "mode": "none", "tools": [named("look")]},
            "tool_choice.allowed_tools.mode",
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": []},
            "tool_choice.allowed_tools.tools",
        ),
    ],
)
def test_a_choice_of_another_shape_is_refused_by_path(choice: Any, param: str) -> None:
    assert refused(tools=TWO, tool_choice=choice).param == param


def test_a_custom_tool_is_offered_and_chosen_like_any_other() -> None:
    tools = [tool("look"), custom("run", description="Runs code.")]
    assert ask(tools=tools).choice == ToolChoice("auto", ("look", "run"))
    only = ToolChoice("required", ("run",), parallel=False)
    for choice in (
        {"type": "custom", "custom": {"name": "run"}},
        {"type": "custom", "name": "run"},
    ):
        assert ask(tools=tools, tool_choice=choice).choice == only
        some = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [choice]}}
        assert ask(tools=tools, tool_choice=some).choice == ToolChoice("required", ("run",))


def test_a_tool_is_chosen_by_its_own_kind() -> None:
    tools = [tool("look"), custom("run")]
    error = refused(tools=tools, tool_choice=named("run"))
    assert error.param == "tool_choice"
    assert "'run' as a function tool, but it is of type custom" in error.message


@pytest.mark.parametrize(
    ("format", "shown", "held", "lark"),
    [
        (None, {}, {}, None),
        ({"type": "text"}, {}, {}, None),
        (grammar("regex", "a|b"), {"pattern": "a|b"}, {"pattern": "^(?:a|b)$"}, None),
        (
            grammar("lark", 'start: "a"'),
            {"description": 'Text of this grammar:\nstart: "a"'},
            {},
            'start: "a"',
        ),
    ],
)
def test_a_custom_tool_is_a_function_of_one_text(
    format: Any, shown: dict[str, Any], held: dict[str, Any], lark: str | None
) -> None:
    def parameters(text: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"input": {"type": "string", **text}},
            "required": ["input"],
            "additionalProperties": False,
        }

    (only,) = ask(tools=[custom("run", format=format)]).tools
    assert (only.shown, only.held, only.lark) == (parameters(shown), parameters(held), lark)


@pytest.mark.parametrize(
    ("request_key", "tool_key", "schema_key", "applied"),
    [
        (None, None, None, False),
        (True, None, None, True),
        (None, True, None, True),
        (None, None, True, True),
        (True, False, None, False),
        (True, True, False, False),
    ],
)
def test_the_nearest_word_on_defaults_counts(
    request_key: Any, tool_key: Any, schema_key: Any, applied: bool
) -> None:
    schema = {"properties": {"a": {"default": 1}}}
    if schema_key is not None:
        schema[APPLY_DEFAULTS] = schema_key
    made = ask(
        tools=[tool("look", parameters=schema, **{APPLY_DEFAULTS: tool_key})],
        **{APPLY_DEFAULTS: request_key},
    )
    assert made.applies_defaults(made.tools[0]) is applied
    assert APPLY_DEFAULTS not in made.tools[0].shown
