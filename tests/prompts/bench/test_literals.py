from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.bench.literals import java_value, javascript_value


@pytest.mark.parametrize(
    ("text", "word", "item", "value"),
    [
        ("12", "integer", None, 12),
        ("1.5", "integer", None, "1.5"),
        ("12L", "long", None, 12),
        ("12", "long", None, "12"),
        ("1.5e2f", "float", None, 150.0),
        ("0.5", "double", None, 0.5),
        ("true", "boolean", None, True),
        ("mapArea", "any", None, "mapArea"),
        ("new int[]{1, 2}", "Array", "integer", [1, 2]),
        ('new ArrayList<String>(Arrays.asList("a, b", "c"))', "ArrayList", "String", ["a, b", "c"]),
        ("new ArrayList<>() {{ add(1); add(2); }}", "ArrayList", "integer", [1, 2]),
        ("new ArrayList<>()", "ArrayList", None, []),
        ('new HashMap<>() {{ put("a", 1); put("b", "x"); }}', "HashMap", None, {"a": 1, "b": "x"}),
        ("someList", "ArrayList", "any", "someList"),
    ],
)
def test_java(text: str, word: str, item: str | None, value: Any) -> None:
    assert java_value(text, word, item) == value


@pytest.mark.parametrize(
    ("text", "word", "item", "value"),
    [
        ("'a'", "String", None, "a"),
        ("12n", "Bigint", None, 12),
        ("1.5", "float", None, 1.5),
        ("false", "Boolean", None, False),
        ("['a, b', \"c\"]", "array", "String", ["a, b", "c"]),
        ("new Array(1, 2)", "array", "integer", [1, 2]),
        ("[[1, 2], [3]]", "array", "array", [[1, 2], [3]]),
        ("[1, x]", "array", None, [1, "x"]),
        ("{a: 1, 'b': [true], c: {d: 'e'}}", "dict", None, {"a": 1, "b": [True], "c": {"d": "e"}}),
        ("{}", "dict", None, {}),
        ("{a: 1", "dict", None, "{a: 1"),
        ("items", "array", "String", "items"),
    ],
)
def test_javascript(text: str, word: str, item: str | None, value: Any) -> None:
    assert javascript_value(text, word, item) == value


@given(st.text(alphabet="new Aray()[]{}<>'\",:1.LfEHshMpasList", max_size=40))
def test_no_text_of_a_model_is_an_error(text: str) -> None:
    for word in ("Array", "ArrayList", "HashMap", "long", "float"):
        java_value(text, word, "String")
    for word in ("array", "dict", "Bigint", "String"):
        javascript_value(text, word, "float")
