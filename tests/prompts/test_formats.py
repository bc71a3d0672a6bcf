from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.conversation import PastCall
from prompts.formats import ROWS, ToolFormat, render_call, render_calls, row_named
from prompts.payloads import JSON

NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,24}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(), VALUES, max_size=4)


JSON_ROWS = [row for row in ROWS if row.args == JSON]


@pytest.mark.parametrize("row", JSON_ROWS, ids=lambda row: row.name)
@settings(max_examples=30)
@given(name=NAMES, arguments=ARGUMENTS, index=st.integers(0, 9))
def test_a_rendered_call_parses_back(
    row: ToolFormat, name: str, arguments: dict[str, Any], index: int
) -> None:
    text = render_call(row, name, arguments, call_id="functions.x:0", index=index)
    parts = {
        "name": f"(?P<name>{re.escape(name)})",
        "args": "(?P<args>.*)",
        "id": re.escape("functions.x:0"),
        "i": str(index),
        "i1": str(index + 1),
    }
    pieces = re.split("«([a-z0-9]+)»", row.call)
    pattern = "".join(
        parts[piece] if place % 2 else re.escape(piece) for place, piece in enumerate(pieces)
    )
    match = re.fullmatch(pattern, text, re.DOTALL)
    assert match
    assert json.loads(match["args"]) == arguments


@given(arguments=ARGUMENTS)
def test_arguments_are_one_line_of_raw_json_in_the_given_order(arguments: dict[str, Any]) -> None:
    text = render_call(row_named("generic"), "f", arguments, call_id="", index=0)
    assert "\n" not in text
    written = json.loads(text)["arguments"]
    assert list(written) == list(arguments)
    assert text == '{"name": "f", "arguments": ' + json.dumps(arguments, ensure_ascii=False) + "}"


def test_a_placeholder_inside_a_value_is_left_alone() -> None:
    text = render_call(row_named("hermes"), "f", {"a": "«name»«id»"}, call_id="x", index=0)
    assert text == '<tool_call>\n{"name": "f", "arguments": {"a": "«name»«id»"}}\n</tool_call>'


def test_calls_of_a_turn_stand_in_one_section() -> None:
    calls = [PastCall("a1b2c3d4e", "f", {"x": 1}), PastCall("b1b2c3d4e", "g", {})]
    assert render_calls(row_named("mistral_v3"), calls) == (
        '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}, "id": "a1b2c3d4e"}, '
        '{"name": "g", "arguments": {}, "id": "b1b2c3d4e"}]'
    )
    assert render_calls(row_named("command_a"), calls) == (
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {"x": 1}},\n'
        '    {"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>'
    )
    assert render_calls(row_named("generic"), calls) == (
        '{"name": "f", "arguments": {"x": 1}}\n{"name": "g", "arguments": {}}'
    )


def test_arguments_that_are_text_are_written_as_they_are() -> None:
    assert render_call(row_named("generic"), "f", "ARGUMENTS", call_id="", index=0) == (
        '{"name": "f", "arguments": ARGUMENTS}'
    )


def test_every_row_has_its_own_name_and_says_where_name_and_arguments_stand() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        for call in (row.call, *(loose.call for loose in row.loose)):
            assert "«args»" in call
            assert "«name»" in call or row.ids == "kimi"


def test_an_unknown_row_is_an_error() -> None:
    with pytest.raises(KeyError):
        row_named("nobody")
