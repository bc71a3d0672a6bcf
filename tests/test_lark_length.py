from __future__ import annotations

import math

import pytest

from server.lark import _expressions
from server.lark_length import shortest_text
from server.schema.shortest import shortest_match


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        ("", 0),
        ("^abc$", 3),
        (r"a\.[b-d\]]+\U0000002D", 4),
        ("(ab){3}c?", 6),
        ("(?:(?:a{10}){10}){10}", 1000),
        ("a*(b|c){2,5}", 4),  # of alternatives all count
        ("x{0}", 0),
    ],
)
def test_patterns(pattern: str, length: int) -> None:
    assert shortest_match(pattern) == length


@pytest.mark.parametrize(
    ("lark", "length"),
    [
        ('start: "abc" /d{3}/', 6),
        ('start: a | b // "c"\na: "12345"\nb: "123"', 3),
        ('start: a~1000\na: b{1000}\nb: "x"', 10**6),
        ('start: ["abc"] ("d" "e")* "f"? "g"+', 1),
        ('start: a "x"\na: start | "y"', 2),
        ('start: "(" start ")" | W\nW: "w"{2,4}', 2),
        ("start: start", math.inf),
        ("start: /a/ -> some", 1),
        ('start: "a".."z"', 2),
        (
            "\n".join(["start: a0", *(f"a{i}: a{i + 1} a{i + 1}" for i in range(80)), 'a80: "x"']),
            1e18,
        ),
    ],
)
def test_grammars(lark: str, length: float) -> None:
    assert shortest_text(_expressions(lark)) == length
