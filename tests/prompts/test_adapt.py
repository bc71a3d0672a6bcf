from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from prompts.adapt import shape
from prompts.conversation import Conversation, Message, PastCall
from prompts.formats import HERMES, row_named
from prompts.traits import PLAIN, TemplateTraits
from tests.prompts.helpers import WEATHER, conversations

CALL = PastCall("id1", "get_weather", {"city": "Porto"})
OTHER = PastCall("id2", "get_weather", {"city": "Faro"})
HERMES_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Porto"}}\n</tool_call>'


def shaped(*messages: Message, **traits: Any) -> list[dict[str, Any]]:
    conversation = Conversation(messages, (WEATHER,))
    return shape(conversation, HERMES, TemplateTraits(**traits), "LISTING").messages


def said(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in messages]


def test_by_default_messages_are_openais_with_arguments_as_an_object() -> None:
    conversation = Conversation(
        (
            Message("user", "hi"),
            Message("assistant", calls=(CALL,), reasoning="hm"),
            Message("tool", "21", call_id="id1", name="get_weather"),
        ),
        (WEATHER,),
    )
    result = shape(conversation, HERMES, TemplateTraits(), "")
    assert result.messages == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "id": "id1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": {"city": "Porto"}},
                }
            ],
        },
        {"role": "tool", "content": "21", "tool_call_id": "id1", "name": "get_weather"},
    ]
    assert result.tools == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather of a city.",
                "parameters": WEATHER.parameters,
            },
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "as_object", "as_text"),
    [
        ({"city": "Tōkyō"}, {"city": "Tōkyō"}, '{"city": "Tōkyō"}'),
        ("", {}, "{}"),
        ('{"cut": "Po', {"input": '{"cut": "Po'}, '{"input": "{\\"cut\\": \\"Po"}'),
    ],
)
def test_arguments_are_an_object_or_text_whatever_the_client_sent(
    arguments: Any, as_object: Any, as_text: str
) -> None:
    message = Message("assistant", calls=(PastCall("id1", "f", arguments),))
    for traits, expected in (("object", as_object), ("text", as_text)):
        (entry,) = shaped(message, arguments=traits)
        assert entry["tool_calls"][0]["function"]["arguments"] == expected


def test_empty_content_beside_calls_is_what_the_template_wants() -> None:
    message = Message("assistant", calls=(CALL,))
    assert shaped(message, empty_content="text")[0]["content"] == ""
    assert shaped(message, empty_content="null")[0]["content"] is None
    assert "content" not in shaped(message, empty_content="absent")[0]
    assert shaped(Message("assistant"), empty_content="null")[0]["content"] == ""


def test_content_in_parts() -> None:
    (entry,) = shaped(Message("user", "hi"), content="parts")
    assert entry["content"] == [{"type": "text", "text": "hi"}]


def test_tools_that_the_template_does_not_list_are_listed_in_the_system_text() -> None:
    conversation = Conversation((Message("system", "be brief"), Message("user", "x")), (WEATHER,))
    result = shape(conversation, HERMES, TemplateTraits(tools="ours"), "LISTING")
    assert result.tools == []
    assert said(result.messages) == [("system", "be brief\n\nLISTING"), ("user", "x")]
    assert said(shaped(Message("user", "x"), tools="ours"))[0] == ("system", "LISTING")


def test_nothing_is_listed_where_no_tools_are_offered() -> None:
    conversation = Conversation((Message("user", "x"),))
    result = shape(conversation, HERMES, TemplateTraits(tools="ours"), "LISTING")
    assert said(result.messages) == [("user", "x")]


def test_calls_as_text_keep_what_was_said_beside_them() -> None:
    messages = (
        Message("assistant", "I look.", calls=(CALL,)),
        Message("tool", "21", call_id="id1"),
    )
    assert said(shaped(*messages, calls="text")) == [
        ("assistant", f"I look.\n{HERMES_CALL}"),
        ("tool", "21"),
    ]
    assert said(shaped(*messages, calls="text", results="user")) == [
        ("assistant", f"I look.\n{HERMES_CALL}"),
        ("user", "<tool_response>\n21\n</tool_response>"),
    ]


def test_results_of_one_turn_share_a_user_message() -> None:
    messages = shaped(
        Message("assistant", calls=(CALL, OTHER)),
        Message("tool", "21", call_id="id1"),
        Message("tool", "25", call_id="id2"),
        calls="text",
        results="user",
    )
    assert messages[1]["content"] == (
        "<tool_response>\n21\n</tool_response>\n<tool_response>\n25\n</tool_response>"
    )


def test_a_result_without_its_call_is_text_of_a_user() -> None:
    orphan = Message("tool", "21", call_id="lost", name="f")
    assert said(shaped(orphan)) == [("user", "<tool_response>\n21\n</tool_response>")]


def test_one_call_each_keeps_every_result_with_its_call() -> None:
    messages = shaped(
        Message("assistant", "Two.", calls=(CALL, OTHER)),
        Message("tool", "25", call_id="id2"),
        Message("tool", "21", call_id="id1"),
        parallel="single",
    )
    assert said(messages) == [
        ("assistant", "Two."),
        ("tool", "21"),
        ("assistant", ""),
        ("tool", "25"),
    ]
    assert [len(message["tool_calls"]) for message in messages[::2]] == [1, 1]


def test_text_beside_calls_before_them_or_in_one_text() -> None:
    message = Message("assistant", "I look.", calls=(CALL,))
    before = shaped(message, text_beside_calls="before")
    assert said(before) == [("assistant", "I look."), ("assistant", "")]
    assert "tool_calls" not in before[0]
    assert "tool_calls" in before[1]
    (written,) = shaped(message, text_beside_calls="text")
    assert written["content"] == f"I look.\n{HERMES_CALL}"
    silent = Message("assistant", calls=(CALL,))
    assert "tool_calls" in shaped(silent, text_beside_calls="text")[0]


def test_a_user_after_results_makes_their_calls_text() -> None:
    loop = (Message("assistant", calls=(CALL,)), Message("tool", "21", call_id="id1"))
    assert "tool_calls" in shaped(*loop, user_after_result="text")[0]
    messages = shaped(
        *loop, Message("user", "and?"), user_after_result="text", results="user", alternate=True
    )
    assert said(messages) == [
        ("assistant", HERMES_CALL),
        ("user", "<tool_response>\n21\n</tool_response>\n\nand?"),
    ]


MIXED = (
    Message("system", "one"),
    Message("system", "two"),
    Message("user", "hi"),
    Message("assistant", "yes"),
    Message("system", "three"),
    Message("user", "so"),
)


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("anywhere", [(message.role, message.content) for message in MIXED]),
        (
            "first",
            [
                ("system", "one\n\ntwo"),
                ("user", "hi"),
                ("assistant", "yes"),
                ("user", "three"),
                ("user", "so"),
            ],
        ),
        (
            "first_user",
            [("user", "one\n\ntwo\n\nhi"), ("assistant", "yes"), ("user", "three"), ("user", "so")],
        ),
        (
            "last_user",
            [("user", "hi"), ("assistant", "yes"), ("user", "three"), ("user", "one\n\ntwo\n\nso")],
        ),
    ],
)
def test_system_messages_go_where_the_template_takes_them(
    system: str, expected: list[tuple[str, str]]
) -> None:
    assert said(shaped(*MIXED, system=system)) == expected


def test_a_system_text_alone_becomes_a_user_message() -> None:
    assert said(shaped(Message("system", "one"), system="first_user")) == [("user", "one")]
    assert said(shaped(Message("system", "one"), system="last_user")) == [("user", "one")]


def test_neighbours_of_one_role_are_merged() -> None:
    messages = shaped(
        Message("user", "a"),
        Message("user", "b"),
        Message("assistant", "c"),
        Message("assistant", "d", calls=(CALL,)),
        Message("tool", "1", call_id="id1"),
        Message("assistant", "e"),
        alternate=True,
    )
    assert said(messages) == [("user", "a\n\nb"), ("assistant", "c\n\nd"), ("tool", "1"),
                              ("assistant", "e")]  # fmt: skip
    assert messages[1]["tool_calls"]


def test_a_user_has_the_first_word() -> None:
    hello = Message("assistant", "hello")
    assert said(shaped(hello, user_first=True)) == [("user", ""), ("assistant", "hello")]
    after_system = shaped(Message("system", "s"), hello, user_first=True)
    assert said(after_system)[1] == ("user", "")
    assert said(shaped(Message("user", "u"), user_first=True)) == [("user", "u")]


def test_empty_answers_are_left_out_where_the_template_refuses_them() -> None:
    messages = (Message("user", "a"), Message("assistant"), Message("user", "b"))
    assert said(shaped(*messages, drop_empty=True)) == [("user", "a"), ("user", "b")]
    assert len(shaped(Message("assistant", calls=(CALL,)), drop_empty=True)) == 1


def test_reasoning_is_also_given_under_the_name_that_the_family_uses() -> None:
    conversation = Conversation((Message("assistant", "x", reasoning="hm"),))
    (entry,) = shape(conversation, row_named("harmony"), TemplateTraits(), "").messages
    assert entry["reasoning_content"] == entry["thinking"] == "hm"


@given(conversations())
def test_the_plainest_shape_is_turns_of_user_and_assistant(conversation: Conversation) -> None:
    messages = shape(conversation, HERMES, PLAIN, "LISTING").messages
    roles = [message["role"] for message in messages]
    assert roles == ["user" if index % 2 == 0 else "assistant" for index in range(len(roles))]
    assert all(set(message) <= {"role", "content", "reasoning_content"} for message in messages)


def test_thousands_of_messages_and_calls_are_shaped_in_linear_time() -> None:
    calls = tuple(PastCall(f"id{number}", "f", {}) for number in range(20_000))
    results = [Message("tool", "1", call_id=call.id) for call in reversed(calls)]
    users = [Message("user", "x" * 1000)] * 20_000
    messages = shaped(
        *users, Message("assistant", calls=calls), *results, alternate=True, parallel="single"
    )
    assert len(messages) == 1 + 2 * len(calls)
