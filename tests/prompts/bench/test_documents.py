from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prompts.bench.documents import Slip, check_json, read_jsonl, read_yaml
from server.errors import SetupError


def bomb(item: str, levels: int = 12) -> str:
    """A small text in which each line has the one before nine times."""
    lines = [f"a0: &a0 {item}"]
    for at in range(1, levels):
        inner = ",".join([f"*a{at - 1}"] * 9)
        lines.append(f"a{at}: &a{at} " + (f"{{<<: [{inner}]}}" if item[0] == "{" else f"[{inner}]"))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (bomb("[lol]"), "aliases make it longer"),
        (bomb("{a: 1}"), "aliases make it longer"),
        ("a: &x {b: *x}", "inside of itself"),
        ("a: &x [*x]", "inside of itself"),
        ("cases: [1]\ncases: [2]", "the key 'cases' is there twice"),
        ("a: " + "[" * 3000, "cannot be read as YAML"),
        ("a: 2024-13-45", "cannot be read as YAML"),
        ("[1]", "has to have"),
    ],
)
def test_yaml_that_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(SetupError, match=says) as refused:
        read_yaml(path)
    assert str(path) in str(refused.value)


def test_aliases_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: &x {b: 1}\nc: [*x, *x]\nd: {<<: *x, e: 2}")
    assert read_yaml(path) == {"a": {"b": 1}, "c": [{"b": 1}] * 2, "d": {"b": 1, "e": 2}}


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_lines_that_are_no_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n" + text)
    with pytest.raises(SetupError, match="line 2 is n"):
        list(read_jsonl(path))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read"):
        read_yaml(tmp_path)


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else 1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [float("nan")]}, r"it\.a\[0\] is nan"),
        ({"a": float("-inf")}, r"it\.a is -inf"),
        ({1: 2}, "has the key 1"),
        ({"a": b"x"}, "it.a is a bytes"),
        ({"a": {1}}, "it.a is a set"),
        (["\ud800"], r"it\[0\] has half of a surrogate pair"),
        ({"\ud800": 1}, "half of a surrogate pair"),
        (nested(65), "nested deeper than 64"),
    ],
)
def test_what_json_does_not_have(value: Any, says: str) -> None:
    with pytest.raises(Slip, match=says):
        check_json(value, "it")


def test_what_json_has() -> None:
    check_json({"a": [None, True, 1, 1.5, "😀", nested(60)]}, "it")
