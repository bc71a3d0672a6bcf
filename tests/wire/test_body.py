import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.errors import InvalidRequest, TooLarge
from server.wire.body import parse_json, read_object
from tests.wire.builders import LIMITS


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b'{"model": "m", "messages": [', "not usable JSON"),
        (b'{"a": 1} x', "not usable JSON"),
        (b"{'a': 1}", "not usable JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a": "\xff"}', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b"[1, 2]", "object"),
        (b'"text"', "object"),
    ],
)
def test_what_is_not_a_json_object_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        read_object(body, LIMITS)
    assert caught.value.param is None
    assert "sys." not in caught.value.message


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read_object(b'\xef\xbb\xbf{"a": 1}', LIMITS) == {"a": 1}


def test_a_body_over_the_limit_is_too_large() -> None:
    with pytest.raises(TooLarge, match=r"100001 bytes.*100000"):
        read_object(b" " * 100_001, LIMITS)


@pytest.mark.parametrize("innermost", ["1", "[]", "{}"])
def test_depth_is_counted_in_containers(innermost: str) -> None:
    own = 0 if innermost == "1" else 1
    assert parse_json("[" * (5 - own) + innermost + "]" * (5 - own), 5) is not None
    with pytest.raises(ValueError, match="deeper than 5"):
        parse_json("[" * (6 - own) + innermost + "]" * (6 - own), 5)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_endless_nesting_is_refused(opening: bytes) -> None:
    with pytest.raises(InvalidRequest, match="deeper"):
        read_object(opening * 20_000, LIMITS)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"\ud83d\ude00", "😀"),
        (r"\uD83D\uDE00", "😀"),
        (r"\ud83d", "\ufffd"),
        (r"\ude00!", "\ufffd!"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d", "\\\ufffd"),
        (r"\u0041\ud83d\n", "A\ufffd\n"),
    ],
)
def test_half_a_surrogate_pair_becomes_a_replacement_character(source: str, text: str) -> None:
    assert parse_json(f'"{source}"', 5) == text


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_text_can_be_written_out_again(text: str) -> None:
    parsed = parse_json(json.dumps({text: text}), 5)
    assert json.dumps(parsed, ensure_ascii=False).encode()
    if text.isascii():
        assert parsed == {text: text}
