from __future__ import annotations

from pathlib import Path

import pytest

from prompts.bench import bfcl
from prompts.bench.baselines import SHIPPED, against, baselines_of, read, write
from prompts.bench.cases import Case
from prompts.bench.results import Answer, Arm, Row, judge
from prompts.select import NAMES
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
    now = against(found, [*rows(NATIVE, *[WRONG] * 9), *rows(GENERIC, WRONG, WRONG)])
    assert (now["native"].rows, now["native"].only_a, now["native"].is_shown) == (9, 8, True)
    assert (now["generic"].rows, now["generic"].is_shown) == (2, False)


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.json")), ids=lambda path: path.stem)
def test_the_shipped_baselines_are_of_what_ships(path: Path) -> None:
    stored = read(SHIPPED, path.stem)
    assert stored.model == path.stem
    assert set(stored.templates) <= {"native", *NAMES}
    assert {name.removeprefix("bfcl:") for name in stored.datasets} <= set(bfcl.CATEGORIES)
    assert all(id.rpartition("_")[0] for id in stored.cases)
