from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.bench.cases import Call
from prompts.bench.lenient import Reading, read_calls, read_text

TOOLS = ("get_weather", "get_time")
PORTO = Call("get_weather", {"city": "Porto"})


@pytest.mark.parametrize(
    ("text", "failures"),
    [
        ('{"name": "get_weather", "arguments": {"city": "Porto"}}', ()),
        ('Sure!\n```json\n{"name": "get_weather", "arguments": {"city": "Porto"}}\n```', ()),
        ('<tool_call>[{"name": "get_weather", "arguments": {"city": "Porto"}}]</tool_call>', ()),
        ('{"tool": "get_weather", "parameters": {"city": "Porto"}}', ("wrong_keys",)),
        ('{"tool_name": "get_weather", "city": "Porto"}', ("wrong_keys",)),
        ('{"function": {"name": "get_weather", "arguments": {"city": "Porto"}}}', ("wrong_keys",)),
        (
            '{"name": "get_weather", "arguments": "{\\"city\\": \\"Porto\\"}"}',
            ("arguments_as_text",),
        ),
        ('an {empty} brace, then {"name": "get_weather", "arguments": {"city": "Porto"}}', ()),
    ],
)
def test_a_call_in_a_text(text: str, failures: Any) -> None:
    reading = read_text(text, TOOLS)
    assert reading.calls == (PORTO,)
    assert reading.failures == failures


def test_texts_without_a_readable_call() -> None:
    assert read_text("It is sunny [citation 1].", TOOLS).calls == ()
    cut = '{"name": "get_weather", "arguments": {"city": "Por'
    assert read_text(cut, TOOLS).failures == ("broken_json",)
    assert read_text('{"city": "Porto"}', TOOLS).calls == ()


def test_json_that_names_no_tool_is_an_example_of_something() -> None:
    assert read_text('{"name": "Guitar Lessons", "city": "Nashville"}', TOOLS) == Reading((), ())
    assert read_text('{"name": "Guitar Lessons", "descr', TOOLS) == Reading((), ())
    unknown = read_text('{"name": "get_rain", "arguments": {}}', TOOLS)
    assert unknown.calls == (Call("get_rain", {}),)


def test_calls_of_an_api() -> None:
    assert read_calls([("get_weather", '{"city": "Porto"}')]).calls == (PORTO,)
    assert read_calls([("a", "")]).calls == (Call("a", {}),)
    assert read_calls([("a", "[1]"), ("b", "{")]).failures == ("broken_json",)


@given(st.text(alphabet='{}[]":,name argumts\\\n1', max_size=60))
def test_no_text_is_an_error(text: str) -> None:
    read_text(text, TOOLS)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"name":' * 20_000, "[ {" * 3000 + "x"])
def test_brackets_without_end_are_no_call_and_take_no_time(text: str) -> None:
    assert read_text(text, ["get_weather"]).calls == ()
