from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from prompts.bench import bfcl
from prompts.bench.baselines import (
    SHIPPED,
    Baseline,
    against,
    baselines_of,
    path_of,
    read,
    write,
)
from prompts.bench.cases import Case
from prompts.bench.results import Answer, Arm, Asked, Row, case_digest, judge
from prompts.select import NAMES
from server.errors import SetupError
from tests.prompts.bench.samples import case

RIGHT = Answer((("get_weather", '{"city": "Porto"}'),))
WRONG = Answer((("get_time", "{}"),))
NATIVE, GENERIC = Arm("m", "native"), Arm("m", "generic")


def one(at: int) -> Case:
    return case({"get_weather": {"city": ["Porto"]}}, id=f"c_{at}")


def rows(arm: Arm, *answers: Answer) -> list[Row]:
    return [judge(arm, one(at), answer) for at, answer in enumerate(answers)]


def test_what_is_stored_is_read_and_compared_row_by_row(tmp_path: Path) -> None:
    run = [
        *rows(NATIVE, *[RIGHT] * 8, WRONG, Answer(error="status 500")),
        *rows(GENERIC, WRONG, RIGHT),
        *rows(Arm("m", "native", constrained=False), RIGHT),
        *rows(Arm("m", "native", variant="shuffled"), RIGHT),
    ]
    [made] = baselines_of(run, tool_choice="auto", max_tokens=99, datasets=["bfcl:multiple"])
    write(tmp_path, made)
    found = read(tmp_path, "m")
    assert found == made
    assert sorted(found.templates) == ["generic", "native"]
    assert found.cases == {f"c_{at}" for at in range(9)}
    cases = [one(at) for at in range(10)]
    now = against(found, cases, [*rows(NATIVE, *[WRONG] * 9), *rows(GENERIC, WRONG, WRONG)])
    native, generic = now["native"].difference, now["generic"].difference
    assert (native.rows, native.only_a, native.is_shown) == (9, 8, True)
    assert (generic.rows, generic.is_shown) == (2, False)


def keep(run: list[Row], choice: str | None = None, tokens: int | None = None) -> Baseline:
    [made] = baselines_of(run, tool_choice=choice, max_tokens=tokens, datasets=["cases"])
    return made


def asked(row: Row, tool_choice: str = "auto", max_tokens: int = 9) -> Row:
    """Its case is that of `one`."""
    at = int(row.case.removeprefix("c_"))
    digest = case_digest(one(at))
    return replace(row, asked=Asked(tool_choice, max_tokens, digest, "abc"))


def test_changed_cases_are_left_out_and_counted_as_are_those_without_an_answer() -> None:
    stored = keep([asked(row) for row in rows(NATIVE, *[RIGHT] * 4)])
    other = case({"get_weather": {"city": ["Lima"]}}, id="c_2")
    assert not stored.has(other)
    assert stored.has(one(1))
    now = rows(Arm("an alias", "native"), RIGHT, Answer(error="no"), WRONG)
    held = against(stored, [one(0), one(1), other], now)["native"]
    assert (held.difference.rows, held.unanswered, held.changed) == (1, 1, 2)
    old = keep(rows(NATIVE, *[RIGHT] * 4))  # of rows that do not tell what was asked
    assert against(old, [one(0), one(1), other], now)["native"].changed == 1


def test_how_it_was_asked_is_taken_from_the_rows() -> None:
    run = rows(NATIVE, RIGHT, RIGHT)
    made = keep([asked(row, "required", 99) for row in run])
    assert (made.tool_choice, made.max_tokens) == ("required", 99)
    assert (keep(run).tool_choice, keep(run, "required", 7).max_tokens) == ("auto", 7)
    with pytest.raises(SetupError, match="another tool choice: required, auto"):
        keep([asked(row, "required") for row in run], "auto")
    with pytest.raises(SetupError, match="another number of tokens: 9, 10"):
        keep([asked(run[0]), asked(run[1], max_tokens=10)])


@pytest.mark.parametrize(
    "model", ["org/model", "../../evil", ".hidden", "~", "a b", "[/]", "\udc80", "..", "C:\\x"]
)
def test_any_name_of_a_model_is_a_file_in_the_folder(tmp_path: Path, model: str) -> None:
    made = replace(keep(rows(NATIVE, RIGHT)), model="m")
    path = path_of(tmp_path, model)
    assert path.parent == tmp_path
    assert re.fullmatch(r"[A-Za-z0-9_%-][A-Za-z0-9._%-]*\.json", path.name)
    path.write_bytes(write(tmp_path, made).read_bytes())
    assert read(tmp_path, model) == made
    assert path_of(tmp_path, "qwen2.5-0.5b_x").name == "qwen2.5-0.5b_x.json"


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.json")), ids=lambda path: path.stem)
def test_the_shipped_baselines_are_of_what_ships(path: Path) -> None:
    stored = read(SHIPPED, path.stem)
    assert stored.model == path.stem
    assert set(stored.templates) <= {"native", *NAMES}
    assert {name.removeprefix("bfcl:") for name in stored.datasets} <= set(bfcl.CATEGORIES)
    assert all(id.rpartition("_")[0] for id in stored.cases)
