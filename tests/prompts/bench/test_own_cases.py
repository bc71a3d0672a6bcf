from __future__ import annotations

import json
from pathlib import Path

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
        ("a: [", "is not YAML"),
        ("cases: [{phrasings: [a]}]", "case 1 cannot be read: 'expect'"),
        ("cases: [{expect: [{x: {}}], phrasings: [a]}]", "the tool x, which is not offered"),
        ("tools: [{name: x}]\ncases: [{expect: [{x: {y: 1}}], phrasings: [a]}]", "no parameter y"),
        ("tools: []", "no cases"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(SetupError, match=says):
        read_cases(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="there is no"):
        read_cases(tmp_path / "none.yaml")
