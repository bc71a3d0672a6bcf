from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from prompts.bench.sampling import rows_of, sample
from tests.prompts.bench.samples import case

CASES = [
    case(category=category, id=f"{category}_{at}")
    for category, count in (("irrelevance", 60), ("live_irrelevance", 30), ("live_relevance", 3))
    for at in range(count)
]


def test_every_category_has_its_share() -> None:
    counts = Counter(one.category for one in sample(CASES, 31, seed=1))
    assert counts == {"irrelevance": 20, "live_irrelevance": 10, "live_relevance": 1}
    assert sample(CASES, 31, seed=1) == sample(CASES, 31, seed=1)
    assert sample(CASES, 31, seed=1) != sample(CASES, 31, seed=2)


@given(st.integers(0, 120))
def test_as_many_as_were_asked_for(size: int) -> None:
    chosen = sample(CASES, size, seed=1)
    assert len(chosen) == min(size, len(CASES))
    if size >= 3:
        assert len({one.category for one in chosen}) == 3


def test_rows_of_each_category_take_turns_after_the_ones_left_alone() -> None:
    cases = [case(category=c, id=f"{c}{i}") for c in "ab" for i in range(5)] + [
        case(category="c", id="c0")
    ]
    assert [one.id for one in rows_of(cases, 1, 3)] == ["a1", "b1", "a2", "b2", "a3", "b3"]
    assert [one.id for one in rows_of(cases, 0, 1)] == ["a0", "b0", "c0"]
    assert len(rows_of(cases, 4, None)) == 2
