from __future__ import annotations

from typing import Any

import pytest

from prompts.bench.cases import Exact
from prompts.bench.exact import match, value_fault

MEMBERS: dict[str, Any] = {"a": [1, 2], "b": [{"c": [["x", {"d": [True]}]]}, ""]}


@pytest.mark.parametrize(
    ("value", "accepted", "fault"),
    [
        (5.0, [5], None),
        (5, [5.0], None),
        ([1, 2.5], [[1.0, 2.5]], None),
        (True, [1], "wrong_type"),
        (0, [False], "wrong_type"),
        ([True], [[1]], "wrong_value"),
        ("5", [5], "wrong_type"),
        (None, [None], None),
        (None, ["x"], "wrong_type"),
        ([2, 1], [[1, 2]], "wrong_value"),
        ([1, 2, 3], [[1, 2]], "wrong_value"),
        ("  new\n YORK ", ["New York"], None),
        ("New York.", ["New York"], "wrong_value"),
        ("NewYork", ["New York"], "wrong_value"),
        ("porto", [Exact("Porto")], "wrong_value"),
        ("Porto", ["Lisbon", Exact("Porto")], None),
        ("", ["x", ""], "wrong_value"),  # it may be left out, not be empty
        ("", [Exact("")], None),
        ({"a": 2}, [MEMBERS], None),
        ({"a": 2, "b": {"c": ["X", {"d": True}]}}, [MEMBERS], None),
        ({"a": 2, "b": {"c": ["X", {"d": 1}]}}, [MEMBERS], "wrong_value"),
        ({"b": {"c": ["X", {"d": True}]}}, [MEMBERS], "wrong_value"),
        ({"a": 2, "z": 1}, [MEMBERS], "wrong_value"),
        ({"one_of": [1.0]}, [Exact({"one_of": [1]})], None),
        ({"one_of": [True]}, [Exact({"one_of": [1]})], "wrong_value"),
        ({"one_of": [1], "z": 1}, [Exact({"one_of": [1]})], "wrong_value"),
        ({"a": "X"}, [Exact({"a": "x"})], "wrong_value"),
    ],
)
def test_a_value(value: Any, accepted: list[Any], fault: str | None) -> None:
    assert value_fault(value, accepted) == fault


def test_pairs_are_as_many_as_there_can_be() -> None:
    # Taking for each row the first column that fits leaves the last row without one.
    assert match([[True, True, False], [True, False, True], [True, False, False]]) == {
        0: 1,
        1: 2,
        2: 0,
    }
    assert len(match([[True, False], [True, False]])) == 1
    assert match([]) == {}
