from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.bench.calibration import Seen, propose

MARGINS = st.lists(st.integers(-40, 40).map(lambda n: n / 4), min_size=1, max_size=30)


def seen_of(needed: list[float], needless: list[float]) -> list[Seen]:
    return [Seen(f"a{i}", True, one) for i, one in enumerate(needed)] + [
        Seen(f"b{i}", False, one) for i, one in enumerate(needless)
    ]


def test_a_bias_keeps_the_share_and_refuses_what_lies_below() -> None:
    needed = [float(n) for n in range(1, 21)]
    found = propose(seen_of(needed, [-3.0, 0.5, 1.5, 1.75, 9.5]), 0.95)
    assert found
    assert found.bias == pytest.approx(-1.88, abs=0.01)  # between 1.75 and 2
    assert (found.kept.right, found.kept.count) == (19, 20)
    assert (found.refused.right, found.before.right, found.before.count) == (4, 1, 5)
    # Of 5 times 20 pairs, 1, 1 and 9 are the wrong way round.
    assert found.auc == pytest.approx(0.89)


def test_a_model_that_never_opens_with_a_call_gets_a_bias_for_it() -> None:
    found = propose(seen_of([-1.0, -2.0], [-6.0]), 1.0)
    assert found
    assert found.bias == 4.0
    assert (found.kept.right, found.refused.right) == (2, 1)


def test_without_both_kinds_there_is_nothing_to_propose() -> None:
    assert propose(seen_of([1.0], []), 0.95) is None
    assert propose(seen_of([], [1.0]), 0.95) is None


@settings(deadline=None)
@given(MARGINS, MARGINS, st.sampled_from([0.5, 0.9, 0.95, 1.0]))
def test_the_share_is_kept_and_no_more_than_needed(
    needed: list[float], needless: list[float], keep: float
) -> None:
    found = propose(seen_of(needed, needless), keep)
    assert found
    assert found.kept.value >= keep - 1e-9
    # One step further down to the next needed call would keep too few.
    at = sorted(one for one in needed if one + found.bias > 0)[0]
    assert sum(one > at for one in needed) < keep * len(needed)
    pairs = [(a > b) + (a == b) / 2 for a in needed for b in needless]
    assert found.auc == pytest.approx(sum(pairs) / len(pairs))
