from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prompts.bench.cases import Call
from prompts.bench.own_cases import read_cases, too_few_phrasings, write_example
from prompts.bench.scoring import check
from server.errors import SetupError


def test_the_example_is_read_and_judged(tmp_path: Path) -> None:
    path = write_example(tmp_path)
    cases = read_cases(path)
    assert len(cases) == 7
    assert too_few_phrasings(cases) == {}
    porto = {"city": "Porto"}
    assert check(cases[0], [Call("get_weather", porto)]) is None
    assert check(cases[0], [Call("get_weather", {**porto, "unit": "celsius"})]) is None
    assert check(cases[0], [Call("get_weather", {**porto, "unit": "kelvin"})]) is not None
    assert check(cases[-1], []) is None
    with pytest.raises(SetupError, match="already"):
        write_example(tmp_path)


def test_lines_of_json_take_the_tools_of_their_folder(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text("tools: [{name: wait, parameters: {properties: {s: {}}}}]")
    line = {"expect": [{"wait": {"s": {"one_of": [1, 2]}}}], "phrasings": ["Wait a second."]}
    (tmp_path / "more.jsonl").write_text(json.dumps(line) + "\n\n")
    [case] = read_cases(tmp_path)
    assert case.id == "more-1-1"
    assert check(case, [Call("wait", {"s": 2})]) is None
    assert check(case, [Call("wait", {"s": 3})]) is not None
    assert too_few_phrasings([case]) == {"wait": 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "has to have"),
        ("cases: 1", "has to be a list"),
        ("a: [", "cannot be read as YAML"),
        ("cases: [{phrasings: [a]}]", "a.yaml: case 1: it needs `expect` and"),
        ("cases: [{expect: [{x: {}}], phrasings: [a]}]", "the tool x, which is not offered"),
        ("tools: [{name: x}]\ncases: [{expect: [{x: {y: 1}}], phrasings: [a]}]", "no parameter y"),
        ("cases: [{expect: , phrasings: [a]}]", "`expect` has to be `none` or a list"),
        ("cases: [{expect: None, phrasings: [a]}]", "`expect` has to be `none` or a list"),
        ("tools: []", "no cases"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(SetupError, match=says):
        read_cases(path)


def write(path: Path, schema: Any, arguments: Any, **more: Any) -> Path:
    """A file with one case of the tool f, in JSON, which is YAML too."""
    tool = {"name": "f", "parameters": schema}
    case = {"expect": [{"f": arguments}], "phrasings": ["hi"], **more}
    path.write_text(json.dumps({"tools": [tool], "cases": [case]}))
    return path


def with_a(schema: Any) -> Any:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


NESTED = {"type": "object", "properties": {"b": {"type": "object"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/P"}, {"x": 1}),
        ({"anyOf": [{"type": "object"}]}, {"b": 1}),
        ({"type": ["object", "null"]}, {"b": 1}),
        ({"type": ["object", "null"]}, None),
        ({}, {"b": 1}),
        (NESTED, {"b": {"c": 1}}),
        (NESTED, {"b": {"c": [{"d": [1, "x"]}]}}),
        ({"type": "array"}, [{"c": 1}, 2]),
        ({"type": "array", "items": {"type": "number"}}, [1.5, 2]),
        ({"type": "string"}, ""),
    ],
)
def test_the_expected_answer_is_right_whatever_the_schema(
    tmp_path: Path, schema: Any, value: Any
) -> None:
    parameters = {**with_a(schema), "$defs": {"P": {"type": "object"}}}
    [case] = read_cases(write(tmp_path / "a.yaml", parameters, {"a": value}))
    assert check(case, [Call("f", {"a": value})]) is None
    assert check(case, [Call("f", {"a": "other"})]) is not None
    assert check(case, [Call("f", {"a": value, "b": 1})]) is not None
    assert check(case, [Call("f", {})]) is not None


def test_choices_at_every_depth(tmp_path: Path) -> None:
    value = {"b": [{"c": {"one_of": [1, {"exact": "X"}], "optional": True}, "d": {"exact": "Y"}}]}
    [case] = read_cases(write(tmp_path / "a.yaml", with_a({}), {"a": value}))
    members: list[Any] = [{"d": "Y"}, {"c": 1, "d": "Y"}, {"c": "X", "d": "Y"}]
    for one in members:
        assert check(case, [Call("f", {"a": {"b": [one]}})]) is None
    for one in [{"d": "y"}, {"c": "x", "d": "Y"}, {"c": 2, "d": "Y"}, {"c": 1}]:
        assert check(case, [Call("f", {"a": {"b": [one]}})]) is not None


def test_an_object_with_the_words_of_a_choice(tmp_path: Path) -> None:
    value = {"one_of": [1], "optional": True}
    [case] = read_cases(write(tmp_path / "a.yaml", with_a({}), {"a": {"exact": value}}))
    assert check(case, [Call("f", {"a": value})]) is None


def test_calls_are_paired_off(tmp_path: Path) -> None:
    expect = [{"f": {"a": {"one_of": [1, 2]}}}, {"f": {"a": 1}}]
    [case] = read_cases(write(tmp_path / "a.yaml", with_a({}), {}, expect=expect))
    calls = {at: Call("f", {"a": at}) for at in (1, 2, 3)}
    assert check(case, [calls[1], calls[2]]) is None
    assert check(case, [calls[2], calls[1]]) is None
    one = check(case, [calls[1], calls[3]])
    none = check(case, [calls[3], calls[3]])
    assert [found.kind for found in (one, none) if found] == ["wrong_value", "no_match"]


TEXT = with_a({"type": "string"})


@pytest.mark.parametrize(
    ("schema", "arguments", "says"),
    [
        (TEXT, {"a": False}, r"f\.a: False is not of type 'string'"),
        (TEXT, {"a": {"one_of": ["x", 750]}}, r"f\.a: 750 is not of type 'string'"),
        (TEXT, {"a": {"one_of": "text"}}, "`one_of` has to be a list"),
        (TEXT, {"a": {"one_of": []}}, "`one_of` has to be a list"),
        (TEXT, {"a": {"one_of": ["x"], "optionl": True}}, "optionl beside one_of"),
        (TEXT, {"a": {"one_of": ["x"], "optional": "false"}}, "has to be true or false"),
        (TEXT, {"a": {"one_of": ["x"], "exact": "x"}}, "either one_of or exact"),
        (TEXT, {"a": {"optional": True}}, "either one_of or exact"),
        (TEXT, {}, "'a' is a required property"),
        (TEXT, {"a": {"one_of": ["x"], "optional": True}}, "'a' is a required property"),
        (with_a({}), {"a": [{"one_of": [1]}]}, "one_of inside of a list"),
        (with_a({"type": "array", "items": {"enum": [1]}}), {"a": [1, 2]}, r"f\.a\[1\]: 2 is not"),
        (with_a({"properties": {"b": {"type": "integer"}}}), {"a": {"b": {"one_of": [1, "x"]}}},
         r"f\.a\.b: 'x' is not"),
        (with_a({"$ref": "https://schemas.test/x"}), {"a": 1}, "leads nowhere"),
        (with_a({"$ref": "#/properties/a"}), {"a": 1}, "refer to themselves"),
        (with_a({"type": "strng"}), {"a": 1}, "parameters.properties.a.type: 'strng'"),
        ({"properties": ["a"]}, {}, "no JSON Schema: parameters.properties"),
        ({"required": True}, {}, "no JSON Schema: parameters.required"),
        (None, {}, "have to be a JSON Schema"),
        (TEXT, [1], "arguments of f have to be a mapping"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_meant(tmp_path: Path, schema: Any, arguments: Any, says: str) -> None:
    with pytest.raises(SetupError, match=says) as refused:
        read_cases(write(tmp_path / "a.yaml", schema, arguments))
    assert "a.yaml" in str(refused.value)


def test_patterns_of_ecma_262_are_taken(tmp_path: Path) -> None:
    schema = with_a({"type": "string", "pattern": r"^\p{L}+$"})
    assert read_cases(write(tmp_path / "a.yaml", schema, {"a": "x"}))


@pytest.mark.parametrize(
    ("phrasings", "says", "hints"),
    [
        ("text", "`phrasings` has to be a list", ""),
        ("[Remind me: buy milk]", "phrasing 1 is a mapping", "A colon before a space"),
        ("[a, 2024-05-01]", r"phrasings\[1\] is a date", "put it in quotes"),
        ("[12:30]", "phrasing 1 is 750, not text", "put it in quotes"),
        ("[[]]", "phrasing 1 is empty", "list of messages"),
        ("[' ']", "phrasing 1 is empty", ""),
        ("[[{content: hi}]]", "no role", "`role` and `content`"),
        ("[[{role: usr, content: hi}]]", "no role", ""),
        ("[[{role: user}]]", "no content", ""),
        ("[hi]\n    expected: 3", "it has expected", ""),
    ],
)
def test_phrasings_that_cannot_be_meant(
    tmp_path: Path, phrasings: str, says: str, hints: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"cases:\n  - expect: none\n    phrasings: {phrasings}\n")
    with pytest.raises(SetupError, match=f"a.yaml: case 1: .*{says}") as refused:
        read_cases(path)
    assert hints in refused.value.hint


@pytest.mark.parametrize("tools", ["{f: {}}", "[f]", "[{name: 1}]", "[{name: f}, {name: f}]"])
def test_tools_that_cannot_be_meant(tmp_path: Path, tools: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"tools: {tools}\ncases: [{{expect: none, phrasings: [hi]}}]")
    with pytest.raises(SetupError, match=r"a\.yaml: .*tools"):
        read_cases(path)


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for suffix in ("yaml", "yml"):
        write(tmp_path / f"a.{suffix}", {}, {})
    with pytest.raises(SetupError, match=r"id a-1-1: .*a\.yaml: case 1.*a\.yml: case 1"):
        read_cases(tmp_path)


def test_a_phrasing_counts_once(tmp_path: Path) -> None:
    phrasings = ["hi", "hi", "Hi ", "ho", "he", "ha"]
    cases = read_cases(write(tmp_path / "a.yaml", {}, {}, phrasings=phrasings))
    assert len(cases) == 6
    assert too_few_phrasings(cases) == {"f": 4}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="there is no"):
        read_cases(tmp_path / "none.yaml")
