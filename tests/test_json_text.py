from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server.json_text import MAX_DIGITS, MAX_EXPONENT_DIGITS, Layout, ValueTracker

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
containers = st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4)


def texts(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@settings(deadline=None)
@given(containers, st.binary(max_size=4), st.booleans())
def test_the_end_of_a_value_is_found(value: Any, rest: bytes, indented: bool) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1 if indented else None).encode()
    assert ValueTracker().feed(text + rest) == len(text)
    tracker = ValueTracker()
    ends = [tracker.feed(bytes([byte])) for byte in text]
    assert ends == [None] * (len(text) - 1) + [1]


@settings(deadline=None)
@given(containers, st.data())
def test_a_part_of_a_value_has_no_end(value: Any, data: st.DataObject) -> None:
    text = texts(value)
    assert ValueTracker().feed(text[: data.draw(st.integers(0, len(text) - 1))]) is None


def left(text: str) -> int:
    tracker = ValueTracker()
    tracker.feed(text.encode())
    return tracker.digits_left


def test_digits_are_counted_within_a_number() -> None:
    assert left("[") == MAX_DIGITS
    assert left("[123") == MAX_DIGITS - 3
    assert left("[-12") == MAX_DIGITS - 2
    assert left("[123, 4") == MAX_DIGITS - 1
    assert left("[123.4") == MAX_DIGITS - 1
    assert left("[123.4e") == MAX_EXPONENT_DIGITS
    assert left("[123.4E-") == MAX_EXPONENT_DIGITS
    assert left("[1e+5") == MAX_EXPONENT_DIGITS - 1
    assert left("[1e+5,") == MAX_DIGITS
    assert left('["123456') == MAX_DIGITS
    assert left("[true, 7") == MAX_DIGITS - 1


def test_what_the_limits_let_through_is_a_double() -> None:
    largest = "9" * MAX_DIGITS + "." + "9" * MAX_DIGITS + "e" + "9" * MAX_EXPONENT_DIGITS
    assert json.loads(largest) < float("inf")
    assert MAX_DIGITS > len(str(2**64))


def parts(value: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = {path: value}
    for key, each in inner:
        found |= parts(each, (*path, key))
    return found


@settings(deadline=None)
@given(values, st.booleans())
def test_layout_has_every_part_in_its_place(value: Any, indented: bool) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1 if indented else None)
    layout = Layout.of(text)
    expected = parts(value)
    assert layout.spans.keys() == expected.keys()
    for path, (begin, end) in layout.spans.items():
        assert json.loads(text[begin:end]) == expected[path]
    assert layout.doubled == []


def test_layout_finds_names_that_come_twice() -> None:
    text = '{"a": 1, "b": {"a": 2, "x": [], "\\u0061": 3}, "a": 4, "c": 5}'
    assert [text[begin:end] for begin, end in Layout.of(text).doubled] == ['"\\u0061"', '"a"']
