from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prompts.bench.cases import Case
from prompts.bench.variants import check_variant, vary
from server.errors import SetupError
from tests.prompts.bench.samples import TIME, WEATHER, case


def names(one: Case) -> list[str]:
    return [tool["function"]["name"] for tool in one.tools]


POOL = [case(functions=[{**TIME, "name": f"t{at}"}], id=f"p_{at}") for at in range(30)]


def test_distractors_come_from_other_cases_and_are_always_the_same() -> None:
    one = case({"get_weather": {"city": ["Porto"]}})
    varied = vary(one, "distractors-5", [*POOL, one])
    assert len(set(names(varied))) == 7
    assert set(names(one)) < set(names(varied))
    assert vary(one, "distractors-5", [*POOL, one]) == varied
    assert varied.types == one.types


def test_fewer_distractors_than_asked_for_are_refused() -> None:
    one = case({"get_weather": {"city": ["Porto"]}})
    assert len(vary(one, "distractors-30", [*POOL, one]).tools) == 32
    with pytest.raises(SetupError, match="only 30 tools besides those of c_0"):
        vary(one, "distractors-31", [*POOL, one])


def test_descriptions_go_but_a_property_of_that_name_stays() -> None:
    described = {"description": {"type": "string", "description": "Some text."}}
    function = {**WEATHER, "parameters": {"type": "dict", "properties": described}}
    [tool] = vary(case(functions=[function]), "no-descriptions", []).tools
    assert "Some text" not in json.dumps(tool)
    assert tool["function"]["parameters"]["properties"] == {"description": {"type": "string"}}
    assert "description" not in tool["function"]


def test_an_order_is_drawn_for_each_case() -> None:
    one = case(functions=[{**TIME, "name": f"t{at}"} for at in range(9)])
    other = replace(one, id="c_1")
    assert sorted(names(vary(one, "shuffled", []))) == names(one)
    assert names(vary(one, "shuffled", [])) != names(vary(other, "shuffled", []))
    assert vary(one, "plain", POOL) == one


@pytest.mark.parametrize("name", ["none", "distractors-0", "distractors-x", "distractors-201", ""])
def test_what_is_no_variant(name: str) -> None:
    with pytest.raises(SetupError, match="no variant"):
        check_variant(name)
    check_variant("distractors-60")


@pytest.mark.parametrize(
    ("described", "left"),
    [
        ("The city, e.g. Porto, PT", "The city"),
        ("A city (e.g., 'Porto'), with its zone.", "A city, with its zone."),
        ("Its genre, such as Action or 1.5. Default is 'x'.", "Its genre. Default is 'x'."),
        ("A code. Example: PT-1.", "A code."),
        ("Such a text has none.", "Such a text has none."),
    ],
)
def test_examples_go_out_of_schemas_and_descriptions(described: str, left: str) -> None:
    city = {"type": "string", "description": described, "examples": ["Porto"]}
    named = {"type": "string", "enum": ["a"]}
    properties = {"city": city, "examples": named}
    function = {**WEATHER, "parameters": {"type": "dict", "properties": properties}}
    [tool] = vary(case(functions=[function]), "no-examples", []).tools
    assert tool["function"]["parameters"]["properties"] == {
        "city": {"type": "string", "description": left},
        "examples": named,
    }


def test_several_changes_are_made_one_after_the_other() -> None:
    one = case(functions=[WEATHER])
    varied = vary(one, "distractors-3+no-descriptions", POOL)
    assert len(varied.tools) == 4
    assert "description" not in json.dumps(varied.tools)
    check_variant("distractors-3+no-descriptions")
    with pytest.raises(SetupError, match="no variant 'x'"):
        check_variant("plain+x")
