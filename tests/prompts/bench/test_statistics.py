from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.bench.statistics import difference, mcnemar, rows_needed, share


def test_wilsons_interval_of_known_values() -> None:
    found = share([True] * 81 + [False] * 19)
    assert found.low == pytest.approx(0.7222, abs=1e-3)
    assert found.high == pytest.approx(0.8749, abs=1e-3)
    assert share([False] * 10).low == 0
    assert share([]).high == 1


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_an_interval_holds_its_share(outcomes: list[bool]) -> None:
    found = share(outcomes)
    assert 0 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1


def test_mcnemars_exact_test() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(5, 5) == 1
    assert mcnemar(1, 9) == pytest.approx(2 * 11 / 1024)
    assert mcnemar(0, 5000) == 0 or mcnemar(0, 5000) < 1e-300


def test_what_is_said_of_a_difference() -> None:
    shown = difference([(True, True)] * 80 + [(False, True)] * 15 + [(True, False)] * 2)
    assert shown.is_shown
    assert shown.verdict.startswith("B is better by 13.4%")
    assert shown.low < 13 / 97 < shown.high
    assert "no difference shown" in difference([(True, False), (False, True)]).verdict
    assert "no row" in difference([]).verdict


def test_rows_for_a_wished_difference() -> None:
    assert rows_needed(0.05, 0.2) == pytest.approx(626, abs=3)
    assert rows_needed(0.1, 0.2) < rows_needed(0.05, 0.2)
    assert rows_needed(1, 1) == 6  # 2 / 2 ** 6 is the first below 0.05
    assert rows_needed(0.9, 0.9) == 7
    with pytest.raises(ValueError, match="wished"):
        rows_needed(0, 0.1)
