from typing import Any

import pytest

from prompts.conversation import Message, PastCall, Tool
from server.errors import InvalidRequest
from server.wire.history import UNANSWERED, to_conversation
from tests.wire.builders import ask, call, made, mended, refused, result, tool

USER = {"role": "user", "content": "What is on the shelf?"}


def test_a_call_and_its_result_are_joined() -> None:
    asked, called, answered = mended(
        USER,
        made(call("c1", "look", '{"shelf": "B"}')),
        result("c1", [{"type": "text", "text": "14"}]),
    )
    assert asked == Message("user", "What is on the shelf?")
    assert called == Message("assistant", calls=(PastCall("c1", "look", {"shelf": "B"}),))
    assert answered == Message("tool", "14", call_id="c1", name="look")


def test_results_come_in_the_order_of_their_calls_and_directly_after_them() -> None:
    late = {"role": "system", "content": "Be brief."}
    messages = mended(made(call("a"), call("b")), result("b", "2"), late, result("a", "1"), USER)
    assert [(one.role, one.content) for one in messages] == [
        ("assistant", ""),
        ("tool", "1"),
        ("tool", "2"),
        ("system", "Be brief."),
        ("user", "What is on the shelf?"),
    ]


def test_calls_of_one_turn_may_be_spread_over_several_messages() -> None:
    messages = mended(made(call("a")), made(call("b")), result("a", "1"), result("b", "2"))
    assert [(one.role, one.content) for one in messages] == [
        ("assistant", ""),
        ("tool", "1"),
        ("assistant", ""),
        ("tool", "2"),
    ]


def test_an_unanswered_call_gets_a_result_that_says_so() -> None:
    messages = mended(made(call("a"), call("b")), result("b", "2"), USER)
    assert [one.content for one in messages[1:3]] == [UNANSWERED, "2"]
    assert mended(USER, made(call("a")))[-1] == Message(
        "tool", UNANSWERED, call_id="a", name="look"
    )


def test_an_orphaned_result_stays_where_it_is() -> None:
    messages = mended(
        result("gone", "14", name="look"), USER, {"role": "assistant", "content": "x"}
    )
    assert messages[0] == Message("tool", "14", call_id="gone", name="look")
    assert [one.role for one in messages] == ["tool", "user", "assistant"]


def test_missing_and_repeated_ids_are_filled_in_the_same_way_each_time() -> None:
    history = (made(call(""), call("x"), call("x"), call("call00001")), result(""), result("x"))
    called = mended(*history)[0]
    assert [one.id for one in called.calls] == ["call00002", "x", "call00003", "call00001"]
    assert mended(*history) == mended(*history)


def test_the_legacy_shape_is_read_as_the_present_one() -> None:
    _, called, answered = mended(
        USER,
        {"role": "assistant", "function_call": {"name": "look", "arguments": ""}},
        {"role": "function", "name": "look", "content": "14"},
    )
    assert called.calls == (PastCall("call00001", "look", {}),)
    assert answered == Message("tool", "14", call_id="call00001", name="look")


def test_roles_are_kept_apart_and_developer_is_system() -> None:
    roles = ["system", "user", "user", "developer", "assistant", "assistant"]
    messages = mended(*({"role": role, "content": role} for role in roles))
    assert [one.content for one in messages] == roles
    assert [one.role for one in messages] == [
        *("system", "user", "user", "system", "assistant", "assistant")
    ]


def test_what_the_assistant_thought_and_refused_is_kept() -> None:
    (first,) = mended({"role": "assistant", "refusal": "No.", "reasoning_content": "Hm."})
    assert (first.content, first.reasoning) == ("No.", "Hm.")
    (second,) = mended({"role": "assistant", "content": "Yes.", "reasoning": "Hm!"})
    assert (second.content, second.reasoning) == ("Yes.", "Hm!")


def test_an_ambiguous_result_is_refused_with_its_place() -> None:
    request = ask(messages=[USER, made(call("a"), call("b")), result("foreign")])
    with pytest.raises(InvalidRequest) as caught:
        to_conversation(request)
    assert caught.value.param == "messages[2].tool_call_id"


def test_a_call_without_a_function_is_refused_before_all_that() -> None:
    error = refused(messages=[USER, made({"id": "x1", "type": "function"}), result("x1")])
    assert error.param == "messages[1].tool_calls[0].function"


def test_tools_reach_the_conversation_unless_none_may_be_called() -> None:
    tools = [tool("look", description="Look."), tool("take")]
    only_one = {"type": "allowed_tools", "mode": "auto", "tools": [tool("take")]}
    wanted = (
        Tool("look", "Look.", {"type": "object", "properties": {}}),
        Tool("take", "", {"type": "object", "properties": {}}),
    )
    assert to_conversation(ask(tools=tools)).tools == wanted
    assert to_conversation(ask(tools=tools, tool_choice=only_one)).tools == wanted
    assert to_conversation(ask(tools=tools, tool_choice="none")).tools == ()


def test_template_options_are_the_clients_over_what_the_effort_means() -> None:
    assert to_conversation(ask()).template_options == {}
    assert to_conversation(ask(reasoning_effort="low")).template_options == {
        "reasoning_effort": "low"
    }
    own = {"enable_thinking": True, "date_string": "1 May"}
    assert to_conversation(
        ask(reasoning_effort="none", chat_template_kwargs=own)
    ).template_options == {"reasoning_effort": "none", **own}
    assert to_conversation(ask(reasoning_effort="none")).template_options == {
        "reasoning_effort": "none",
        "enable_thinking": False,
    }


def test_verbosity_is_a_wish_in_the_system_message() -> None:
    def told(*messages: dict[str, Any], verbosity: str | None) -> list[tuple[str, str]]:
        request = ask(messages=list(messages), verbosity=verbosity)
        return [(one.role, one.content) for one in to_conversation(request).messages]

    user, system = ("user", USER["content"]), {"role": "system", "content": "Be kind."}
    for verbosity in (None, "medium"):
        assert told(USER, verbosity=verbosity) == [user]
    low = told(USER, verbosity="low")
    high = told(USER, verbosity="high")
    assert low[0][0] == high[0][0] == "system"
    assert low[1:] == high[1:] == [user]
    assert low != high
    wish = low[0][1]
    assert told(system, USER, verbosity="low") == [("system", f"Be kind.\n\n{wish}"), user]
    empty = {"role": "developer", "content": ""}
    assert told(empty, USER, verbosity="low") == [("system", wish), user]
