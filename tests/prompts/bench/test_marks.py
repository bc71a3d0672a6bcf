from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from prompts.bench.cases import Call, ExpectedCall
from prompts.bench.lenient import Reading, read_text
from prompts.bench.marks import Marks, mark
from tests.prompts.bench.samples import case

TRUTH = {"get_weather": {"city": ["Porto"], "days": [3], "limit": [""]}}


def marks(name: str = "get_weather", **arguments: Any) -> Marks:
    return mark(case(TRUTH), Reading((Call(name, arguments),), ()))


def test_a_right_answer() -> None:
    found = marks(city="Porto", days=3)
    assert (found.right, found.name_right, found.arguments_right) == (True, True, True)
    assert (found.valid_json, found.valid_schema, found.failures) == (True, True, ())


def test_optional_arguments_too_many_and_too_few() -> None:
    found = marks(city="Porto", limit=2)
    assert (found.right, found.added_optional, found.missing_optional) == (False, 1, 1)
    assert found.arguments_right is False
    assert found.valid_schema


def test_classes_of_failures() -> None:
    assert marks(city=7).failures == ("wrong_type",)
    assert marks(days=3).failures == ("missing_required",)
    other = marks("get_rain", city="Porto")
    assert other.failures == ("unknown_tool",)
    assert (other.name_right, other.arguments_right) == (False, None)


def test_wrong_keys_are_forgiven_and_noted() -> None:
    found = mark(
        case(TRUTH),
        read_text('{"tool": "get_weather", "city": "Porto", "days": 3}', ["get_weather"]),
    )
    assert found.right
    assert found.failures == ("wrong_keys",)


def test_calls_where_none_fits() -> None:
    quiet = mark(case(category="irrelevance"), Reading((), ()))
    assert (quiet.right, quiet.called, quiet.name_right) == (True, False, True)
    assert quiet.arguments_right is None
    loud = mark(case(category="irrelevance"), Reading((Call("get_time", {"zone": "WET"}),), ()))
    assert (loud.right, loud.called, loud.fault) == (False, True, "unwanted_call")


@pytest.mark.parametrize("schema", [{"$ref": "#/none"}, {"type": "string", "pattern": "("}])
def test_a_schema_that_cannot_be_followed_is_no_crash(schema: dict[str, Any]) -> None:
    one = case(TRUTH)
    function = {"name": "get_weather", "parameters": {"properties": {"city": schema}}}
    odd = dataclasses.replace(one, tools=({"type": "function", "function": function},))
    found = mark(odd, Reading((Call("get_weather", {"city": "Porto"}),), ()))
    assert found.failures == ("other_schema",)


def test_calls_in_another_order_are_compared_with_the_expected_ones_that_they_are() -> None:
    truth: list[dict[str, Any]] = [
        {"get_weather": {"city": ["Porto"], "days": [3]}},
        {"get_weather": {"city": ["Lyon"]}},
    ]
    both = dataclasses.replace(
        case(), expected=tuple(ExpectedCall(*next(iter(one.items()))) for one in truth),
        in_any_order=True,
    )  # fmt: skip
    calls = (
        Call("get_weather", {"city": "Lyon"}), Call("get_weather", {"city": "Porto", "days": 3})
    )  # fmt: skip
    found = mark(both, Reading(calls, ()))
    assert (found.right, found.added_optional, found.missing_optional) == (True, 0, 0)


def test_no_reference_of_a_schema_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("a schema was fetched")

    monkeypatch.setattr("socket.socket.connect", connect)
    function = {
        "name": "get_weather",
        "parameters": {"properties": {"city": {"$ref": "http://127.0.0.1:9/schema"}}},
    }
    one = dataclasses.replace(case(TRUTH), tools=({"type": "function", "function": function},))
    found = mark(one, Reading((Call("get_weather", {"city": "Porto", "days": 3}),), ()))
    assert found.failures == ("other_schema",)
