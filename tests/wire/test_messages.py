from typing import Any

import pytest

from tests.wire.builders import ask, call, made, refused


def content_of(value: Any) -> str:
    return ask(messages=[{"role": "user", "content": value}]).messages[0].content


def test_text_parts_are_joined_with_nothing_between() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert content_of(parts) == "one two"
    assert content_of([]) == ""


def test_absent_null_and_empty_content_are_alike() -> None:
    messages = [
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": ""},
    ]
    first, *others = ask(messages=messages).messages
    assert others == [first, first]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("image_url", "image"),
        ("input_image", "image"),
        ("input_audio", "audio"),
        ("file", "file"),
        ("video_url", "video"),
        ("hologram", "hologram"),
    ],
)
def test_a_part_that_is_not_text_is_refused_by_path(kind: str, said: str) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: {}}]
    error = refused(messages=[{"role": "system"}, {"role": "user", "content": parts}])
    assert error.param == "messages[1].content[1]"
    assert said in error.message


@pytest.mark.parametrize(
    ("content", "param"),
    [
        (5, "messages[0].content"),
        ({"type": "text", "text": "x"}, "messages[0].content"),
        (["x"], "messages[0].content[0]"),
        ([{"text": "x"}], "messages[0].content[0]"),
        ([{"type": ["text"], "text": "x"}], "messages[0].content[0]"),
        ([{"type": "text"}], "messages[0].content[0]"),
        ([{"type": "text", "text": 5}], "messages[0].content[0]"),
    ],
)
def test_content_of_another_shape_is_refused(content: Any, param: str) -> None:
    assert refused(messages=[{"role": "user", "content": content}]).param == param


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"shelf": "B"}', {"shelf": "B"}),
        ('{  "shelf"  :\n "B"  }', {"shelf": "B"}),
        ({"shelf": "B"}, {"shelf": "B"}),
        ("", {}),
        (" \n", {}),
        (None, {}),
        ("null", {}),
        ('{"shelf": "A", "ja', '{"shelf": "A", "ja'),
        ("[1]", "[1]"),
        ('"text"', '"text"'),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1e999}', '{"a": 1e999}'),
        ("[" * 5000, "[" * 5000),
        ('{"a":' * 100 + "1" + "}" * 100, '{"a":' * 100 + "1" + "}" * 100),
        (r'{"a": "\ud83d"}', {"a": "\ufffd"}),
    ],
)
def test_arguments_are_parsed_or_kept_as_they_are(given: Any, read: Any) -> None:
    message = ask(messages=[made(call("c", arguments=given))]).messages[0]
    assert message.tool_calls[0].arguments == read


def test_arguments_that_are_neither_text_nor_object_are_refused() -> None:
    error = refused(messages=[made(call("c", arguments=[1]))])
    assert error.param == "messages[0].tool_calls[0].function.arguments"


@pytest.mark.parametrize(
    ("broken", "below"),
    [
        ({"id": "x", "type": "function"}, ".function"),
        ({"id": "x", "type": "function", "function": None}, ".function"),
        ({"id": "x", "function": {"arguments": "{}"}}, ".function.name"),
        ({"id": "x", "function": {"name": "", "arguments": "{}"}}, ".function.name"),
        ({"id": "x", "type": "custom", "function": {"name": "n"}}, ".custom"),
        ({"id": "x", "type": "custom", "custom": {"input": "i"}}, ".custom.name"),
        ({"id": "x", "type": "custom", "custom": {"name": "n", "input": 5}}, ".custom.input"),
        ({"id": "x", "type": "telepathy", "function": {"name": "n"}}, ".type"),
        ({"id": 7, "function": {"name": "n"}}, ".id"),
    ],
)
def test_a_broken_call_is_refused_with_its_path(broken: Any, below: str) -> None:
    error = refused(messages=[{"role": "user"}, made(call("a"), broken)])
    assert error.param == "messages[1].tool_calls[1]" + below


def test_the_type_of_a_call_may_be_missing_or_empty() -> None:
    spellings: list[dict[str, Any]] = [{}, {"type": None}, {"type": ""}, {"type": "function"}]
    calls = [{"id": "a", "function": {"name": "n"}, **spelling} for spelling in spellings]
    assert {one.type for one in ask(messages=[made(*calls)]).messages[0].calls} == {"function"}


def test_a_call_of_a_custom_tool_has_its_input_as_the_only_argument() -> None:
    past = {"id": "a", "type": "custom", "custom": {"name": "n", "input": 'say "hi"'}}
    (only,) = ask(messages=[made(past)]).messages[0].calls
    assert (only.id, only.name, only.arguments) == ("a", "n", {"input": 'say "hi"'})


def test_the_legacy_call_is_read_where_there_is_no_other() -> None:
    old = {"function_call": {"name": "old", "arguments": '{"a": 1}'}}
    (only,) = ask(messages=[{"role": "assistant", **old}]).messages[0].calls
    assert (only.id, only.name, only.arguments) == ("", "old", {"a": 1})
    (only,) = ask(messages=[made(call("n", "new"), **old)]).messages[0].calls
    assert only.name == "new"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "narrator", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ("x", "messages[0]"),
        ({"role": "user", "tool_calls": [call("a")]}, "messages[0]"),
        ({"role": "assistant", "audio": {"id": "x"}}, "messages[0]"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
        ({"role": "tool", "tool_call_id": 5}, "messages[0].tool_call_id"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused(message: Any, param: str) -> None:
    assert refused(messages=[message]).param == param


def test_keys_of_other_servers_are_passed_over() -> None:
    extras: dict[str, Any] = {
        "refusal": None,
        "audio": None,
        "annotations": [],
        "reasoning": {"effort": "low"},
    }
    assert ask(messages=[{"role": "assistant", "content": "x", **extras}]).messages[0].calls == ()
