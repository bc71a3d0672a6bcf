from __future__ import annotations

import pytest
import regex

from prompts.formats import HERMES, LLAMA3_JSON, ROWS, row_named
from server.surface import flexible, surfaces

NAMES = ("a", "a.b", "a-b")
LISTS = ("pythonic", "call_list")


def test_the_native_way_comes_first_and_alone_is_exact() -> None:
    for row in ROWS:
        native, *loose = surfaces(row)
        assert native.native
        assert (native.open, native.call, native.close) == (
            row.section[0],
            row.written or row.call,
            row.section[1],
        )
        assert not any(way.native for way in loose)


@pytest.mark.parametrize(
    ("row", "markers"),
    [
        ("hermes", ["<tool_call>", "", "", "", "<tool_call>"]),
        # A bare call is also known where white space varies.
        ("llama3_json", ["", "", "<|python_tag|>", "", "", ""]),
        ("mistral_v3", ["[TOOL_CALLS][", ""][:1]),
        ("functionary_v32", [">>>"]),
        ("generic", ["", "", "", ""]),
        ("pythonic", ["", "", "", ""]),
        ("call_list", ["", "", "", "", ""]),
    ],
)
def test_markers_open_by_themselves(row: str, markers: list[str]) -> None:
    assert [way.marker for way in surfaces(row_named(row))] == markers


def test_a_fence_or_a_brace_opens_only_with_a_name() -> None:
    for way in surfaces(HERMES):
        opening = regex.compile(way.opening(NAMES))
        assert not opening.fullmatch(b"```json\n")
        assert not opening.fullmatch(b'{"name": "other"')
    fence = surfaces(HERMES)[1]
    assert regex.fullmatch(fence.opening(NAMES), b'```json\n{\n  "name": "a.b"')
    assert not regex.fullmatch(fence.opening(NAMES), b'```json\n{"name": "a')


@pytest.mark.parametrize("row", LISTS)
def test_a_list_of_calls_opens_with_a_name(row: str) -> None:
    native, bare, fence, *_ = surfaces(row_named(row))
    first = native.first_opening()
    assert first
    assert regex.match(first, b"[anything(")
    assert not regex.match(first, b'["a", "b"]')
    assert not regex.match(first, b'[{"name": "a"')
    assert regex.fullmatch(native.opening(NAMES), b"[a.b(")
    assert not regex.fullmatch(native.opening(NAMES), b"[other(")
    assert regex.fullmatch(fence.opening(NAMES), b"```python\n[a(")
    assert bare.bare
    others = [each for each in ROWS if each.name not in LISTS]
    assert not any(way.bare for each in others for way in surfaces(each))


def test_a_marker_is_a_token_where_the_vocabulary_has_it() -> None:
    native, *_, literal = surfaces(HERMES)
    assert native.opens_with({"<tool_call>"})
    assert not native.opens_with({"<|im_end|>"})
    assert not literal.opens_with({"<tool_call>"})


@pytest.mark.parametrize("name", NAMES)
def test_heads_take_the_whole_name(name: str) -> None:
    for row in ROWS:
        for way in surfaces(row):
            for first in (True, False):
                head = regex.compile(way.head(NAMES, first=first))
                ids = {"alnum9": "abcdefghi", "kimi": f"functions.{name}:0"}.get(row.ids, "x1")
                values = {"name": name, "id": ids, "i": "0", "i1": "1"}
                text = (way.open if first else "") + regex.sub(
                    "«([a-z0-9]+)»",
                    lambda match, values=values: values[match[1]],  # type: ignore[misc]
                    way.call.partition("«args»")[0],
                )
                found = head.match(text.encode() + b"{")
                assert found, (row.name, text)
                assert found.end() == len(text.encode())
                assert found["name"] == name.encode()


@pytest.mark.parametrize(
    ("text", "same", "other"),
    [
        (
            '{"name": "',
            ['{ "name":  "', '{\n"name" : "', '{"name":"'],
            ['{"na me": "', '{"name" "'],
        ),
        ("```json\n", ["```json\n", "```json \n\n", "```json"], ["```jsonx", "``json\n"]),
        ('{"a": {"b": "x y"', ['{"a":{"b":"x y"', '{ "a" : { "b" : "x y"'], ['{"a": {"b": "x  y"']),
    ],
)
def test_white_space_may_vary_outside_strings(text: str, same: list[str], other: list[str]) -> None:
    pattern = flexible(text)
    assert all(regex.fullmatch(pattern, each) for each in [text, *same])
    assert not any(regex.fullmatch(pattern, each) for each in other)


def test_white_space_is_bounded() -> None:
    assert not regex.fullmatch(flexible('{"name"'), "{" + " " * 100 + '"name"')


def test_loose_ways_that_need_a_token_elsewhere_keep_it() -> None:
    tagged = surfaces(LLAMA3_JSON)[2]
    assert tagged.open == "<|python_tag|>"
    assert tagged.opens_with({"<|python_tag|>"})
