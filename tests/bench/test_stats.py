from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.bench.stats import Spread, median, ratio, spread

POSITIVE = st.floats(1e-3, 1e3)


def test_of_nothing_there_is_nothing() -> None:
    assert spread([]) is None
    assert median([]) is None
    assert ratio([]) is None


def test_spread() -> None:
    assert spread([5.0]) == Spread(5.0, 5.0)
    assert spread([float(n) for n in range(11)]) == Spread(5.0, 9.0)


def test_a_pair_needs_both_values() -> None:
    measured = ratio([(1.0, 2.0), (None, 2.0), (1.0, None), (0.0, 2.0), (1.0, 0.0), (3.0, 2.0)])
    assert measured is not None
    assert measured.pairs == (0.5, 1.5)
    assert measured.median == 1.0
    assert ratio([(None, 1.0)]) is None


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=30))
def test_the_interval_holds_the_median_and_stays_within_the_pairs(
    pairs: list[tuple[float, float]],
) -> None:
    measured = ratio(pairs)
    assert measured is not None
    slack = 1e-9 * measured.median
    assert min(measured.pairs) - slack <= measured.low <= measured.median + slack
    assert measured.median - slack <= measured.high <= max(measured.pairs) + slack
    assert measured == ratio(pairs)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=9))
def test_the_other_way_round_each_pair_is_the_reciprocal(
    pairs: list[tuple[float, float]],
) -> None:
    there, back = ratio(pairs), ratio([(b, a) for a, b in pairs])
    assert there is not None
    assert back is not None
    assert back.pairs == pytest.approx([1 / one for one in there.pairs])


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        measured = ratio([(float(value), 1.0) for value in rng.lognormal(0, 0.3, 15)])
        assert measured is not None
        held += measured.low <= 1.0 <= measured.high
    assert 0.88 <= held / 200 <= 1.0
