"""Each row was also judged by BFCL's checker, with the same outcome (see agreement.py)."""

from __future__ import annotations

from typing import Any

import pytest

from prompts.bench.cases import Call
from prompts.bench.scoring import check
from tests.prompts.bench.samples import case

CITY = {"city": ["Porto", "Porto, PT"]}


def fault(accepted: dict[str, Any], given: dict[str, Any]) -> str | None:
    """The kind of fault of one call of get_weather."""
    found = check(case({"get_weather": accepted}), [Call("get_weather", given)])
    return found.kind if found else None


@pytest.mark.parametrize(
    ("accepted", "given", "kind"),
    [
        ({}, {"city": "Porto"}, None),
        ({}, {"city": "porto - P.T"}, None),
        ({}, {"city": "Lisbon"}, "wrong_value"),
        ({}, {"city": 7}, "wrong_type"),
        ({}, {}, "missing_required"),
        ({}, {"city": "Porto", "days": 3}, "unexpected_parameter"),
        ({"days": [3, ""]}, {"city": "Porto"}, None),
        ({"days": [3]}, {"city": "Porto"}, "missing_optional"),
        ({"days": [3]}, {"city": "Porto", "days": 3.0}, "wrong_type"),
        ({"days": [1]}, {"city": "Porto", "days": True}, "wrong_type"),
        ({"limit": [2.0]}, {"city": "Porto", "limit": 2}, None),
        ({"limit": [2.5]}, {"city": "Porto", "limit": "2.5"}, "wrong_type"),
        ({"tags": [["sun", "Rain"]]}, {"city": "Porto", "tags": ["Sun", "rain"]}, None),
        ({"tags": [["sun", "rain"]]}, {"city": "Porto", "tags": ["rain", "sun"]}, "wrong_value"),
        ({"tags": [["sun"]]}, {"city": "Porto", "tags": [1]}, "wrong_type"),
        ({"tags": [["sun"], ""]}, {"city": "Porto", "tags": []}, None),
        ({"place": [{"lat": [1.5]}]}, {"city": "Porto", "place": {"lat": 1.5}}, None),
        ({"place": [{"lat": [1.5]}]}, {"city": "Porto", "place": {}}, "wrong_value"),
        ({"place": [{"lat": [1.5, ""]}]}, {"city": "Porto", "place": {}}, None),
        ({"place": [{}]}, {"city": "Porto", "place": {"lat": 1}}, "wrong_value"),
        ({"place": ["home"]}, {"city": "Porto", "place": "home"}, None),
        ({"place": ["home"]}, {"city": "Porto", "place": "Home"}, "wrong_value"),
        ({"stops": [[{"a": ["b"]}]]}, {"city": "Porto", "stops": [{"a": "B"}]}, None),
        ({"stops": [[{"a": ["b"]}]]}, {"city": "Porto", "stops": []}, "wrong_value"),
    ],
)
def test_one_call(accepted: dict[str, Any], given: dict[str, Any], kind: str | None) -> None:
    assert fault({**CITY, **accepted}, given) == kind


def test_the_name_and_the_count() -> None:
    one = case({"get_weather": CITY})
    porto = Call("get_weather", {"city": "Porto"})
    kinds = [check(one, calls) for calls in ([], [porto, porto], [Call("get_time", {})])]
    assert [found.kind for found in kinds if found] == ["no_call", "wrong_count", "wrong_name"]


def test_calls_in_any_order() -> None:
    both = case({"get_weather": CITY}, {"get_time": {"zone": ["WET"]}}, category="parallel")
    calls = [Call("get_time", {"zone": "WET"}), Call("get_weather", {"city": "Porto"})]
    assert check(both, calls) is None
    found = check(both, [calls[0], calls[0]])
    assert found
    assert found.kind == "no_match"


def test_no_call_where_none_fits_and_some_call_where_one_does() -> None:
    any_call = [Call("get_time", {})]
    none, some = case(category="irrelevance"), case(category="live_relevance")
    assert check(none, []) is None
    assert check(some, any_call) is None
    kinds = [check(none, any_call), check(some, [])]
    assert [found.kind for found in kinds if found] == ["unwanted_call", "no_call"]
