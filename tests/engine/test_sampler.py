from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from server.engine.sampler import Allowed, Logits, Sampler, Sampling
from server.errors import ConstraintFailed

SIZE = 12
GRID = 200
Weights = NDArray[np.float64]


class Everything:
    """A constraint that allows some tokens only; counts what it is asked for."""

    def __init__(self, allowed: Iterable[int] = range(SIZE)) -> None:
        self.allowed = set(allowed)
        self.masks = 0

    def weigh(self, logits: Logits) -> Logits:
        return logits

    def allows(self, token: int) -> bool:
        return token in self.allowed

    def mask(self) -> Allowed:
        self.masks += 1
        return np.array([token in self.allowed for token in range(SIZE)])


class Points:
    """Random numbers in the order given."""

    def __init__(self, points: Iterable[float]) -> None:
        self._points: Iterator[float] = iter(points)

    def random(self) -> float:
        return next(self._points)


def sampler_at(sampling: Sampling, points: Iterable[float]) -> Sampler:
    sampler = Sampler(sampling)
    sampler._random = Points(points)  # type: ignore[assignment]
    return sampler


def shares(sampling: Sampling, logits: Logits, constraint: Everything) -> Weights:
    """How the draws are shared among the tokens, on a grid of random numbers. Each share is right
    by 1 / GRID, provided that a choice takes one draw.
    """
    sampler = sampler_at(sampling, ((i + 0.5) / GRID for i in range(GRID)))
    drawn = Counter(sampler.choose(logits, constraint) for _ in range(GRID))
    return np.array([drawn[token] / GRID for token in range(SIZE)])


def expected(sampling: Sampling, logits: Logits, allowed: Iterable[int] = range(SIZE)) -> Weights:
    """The reference, one step after the other. Raises Undecided where rounding would decide."""
    probabilities = np.zeros(SIZE)
    chosen = sorted(allowed)
    probabilities[chosen] = np.exp(logits[chosen].astype(np.float64) / sampling.temperature)
    order = list(np.argsort(-probabilities))
    if sampling.top_k:
        probabilities[order[sampling.top_k :]] = 0
    probabilities /= probabilities.sum()
    if sampling.top_p < 1:
        before = np.concatenate([[0], np.cumsum(probabilities[order])[:-1]])
        _decided(before, sampling.top_p)
        probabilities[np.array(order)[before >= sampling.top_p]] = 0
    if sampling.min_p:
        least = sampling.min_p * probabilities.max()
        _decided(probabilities, least)
        probabilities[probabilities < least] = 0
    return np.asarray(probabilities / probabilities.sum())


class Undecided(Exception):
    """A value is so close to a bound that rounding decides."""


def _decided(values: Weights, bound: float) -> None:
    if np.abs(values - bound).min() < 1e-5:
        raise Undecided


LOGITS = st.lists(
    st.integers(-40, 40),
    min_size=SIZE,
    max_size=SIZE,
    unique=True,  # no ties
).map(lambda values: np.array(values, np.float32) / 12)


def test_temperature_zero_takes_the_best() -> None:
    logits = np.arange(SIZE, dtype=np.float32)
    sampler = Sampler(Sampling(temperature=0, top_k=3, top_p=0.1, min_p=0.5))
    constraint = Everything()
    assert sampler.choose(logits, constraint) == SIZE - 1
    assert constraint.masks == 0
    assert sampler.choose(logits, Everything({2, 4})) == 4


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 1.5, 2.0])
def test_temperature(temperature: float) -> None:
    logits = np.linspace(-2, 2, SIZE, dtype=np.float32)
    sampling = Sampling(temperature=temperature)
    found = shares(sampling, logits, Everything())
    assert found == pytest.approx(expected(sampling, logits), abs=1 / GRID)


@settings(max_examples=100, deadline=None)
@given(
    LOGITS,
    st.sampled_from([0, 1, 2, 5, SIZE, 50]),
    st.sampled_from([0.0, 0.2, 0.5, 0.9, 0.95, 1.0]),
    st.sampled_from([0.0, 0.05, 0.3, 0.99]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sets(st.integers(0, SIZE - 1), min_size=1),
)
def test_cuts(
    logits: Logits, top_k: int, top_p: float, min_p: float, temperature: float, allowed: set[int]
) -> None:
    sampling = Sampling(temperature, top_p, top_k, min_p)
    assume(sampling.cuts)  # else there are two draws to a choice
    try:
        wanted = expected(sampling, logits, allowed)
    except Undecided:
        reject()
    found = shares(sampling, logits, Everything(allowed))
    assert found == pytest.approx(wanted, abs=1 / GRID + 1e-6)
    assert set(np.flatnonzero(found)) <= set(np.flatnonzero(wanted))


def test_top_p_is_a_share_of_what_top_k_left() -> None:
    logits = np.linspace(1, 0, SIZE, dtype=np.float32)
    found = shares(Sampling(top_k=4, top_p=0.5), logits, Everything())
    assert np.flatnonzero(found).tolist() == [0, 1]


def test_a_top_k_that_cuts_nothing_changes_nothing() -> None:
    logits = np.array([4, 3.5, 3.2, *[0.0] * (SIZE - 3)], np.float32)
    sampling = Sampling(top_p=0.9)
    found = shares(replace(sampling, top_k=SIZE), logits, Everything())
    assert list(found) == list(shares(sampling, logits, Everything()))


@pytest.mark.parametrize(
    "allowed", [range(SIZE), {3, 7, 8}, {0, SIZE - 1}, {5}], ids=["all", "three", "ends", "one"]
)
def test_the_lazy_mask_gives_the_renormalised_distribution(allowed: Iterable[int]) -> None:
    logits = np.linspace(2, -2, SIZE, dtype=np.float32)
    sampler, draws = Sampler(Sampling(seed=7)), 8_000
    constraint = Everything(allowed)
    drawn = Counter(sampler.choose(logits, constraint) for _ in range(draws))
    wanted = expected(Sampling(), logits, allowed) * draws
    possible = np.flatnonzero(wanted)
    assert set(drawn) <= set(possible.tolist())
    found = np.array([drawn[int(token)] for token in possible])
    chi_square = ((found - wanted[possible]) ** 2 / wanted[possible]).sum()
    freedom = len(possible) - 1
    assert chi_square <= freedom + 4 * np.sqrt(2 * freedom)
    assert constraint.masks < draws  # lazy: not for every token


def test_the_mask_is_computed_only_when_a_choice_is_refused() -> None:
    logits = np.array([5, *[0.0] * (SIZE - 1)], np.float32)
    constraint = Everything({0})
    sampler = sampler_at(Sampling(), [0.1, 0.99, 0.5])
    assert [sampler.choose(logits, constraint), constraint.masks] == [0, 0]
    assert [sampler.choose(logits, constraint), constraint.masks] == [0, 1]


@pytest.mark.parametrize("point", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_k=8), Sampling(top_p=0.999)])
def test_tokens_of_no_weight_are_never_drawn(sampling: Sampling, point: float) -> None:
    """Neither at the ends of the vocabulary, nor when rounding makes the sum of the weights odd."""
    logits = np.array([-1e4, *np.linspace(-0.3, 0.3, SIZE - 2), -1e4], np.float32)
    for allowed in ({0, 4, 5, SIZE - 1}, set(range(SIZE))):
        sampler = sampler_at(sampling, [point] * 4)
        assert 0 < sampler.choose(logits, Everything(allowed)) < SIZE - 1


def test_a_constraint_may_refuse_what_its_mask_allows() -> None:
    """As the free phase of a guide does, which learns of a wrong opening only when asked."""

    class Learns(Everything):
        def allows(self, token: int) -> bool:
            if token == 2:
                return True
            self.allowed.discard(token)
            return False

    logits = np.array([9, 8, 7, *[0.0] * (SIZE - 3)], np.float32)
    assert Sampler(Sampling(temperature=0)).choose(logits, Learns()) == 2


def test_a_constraint_that_refuses_all_fails() -> None:
    class Refuses(Everything):
        def allows(self, token: int) -> bool:
            return False

    with pytest.raises(ConstraintFailed):
        Sampler(Sampling()).choose(np.zeros(SIZE, np.float32), Refuses())


def test_equal_seeds_give_equal_tokens() -> None:
    def tokens(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(seed=seed))
        logits = np.zeros(SIZE, np.float32)
        return [sampler.choose(logits, Everything({1, 2, 3, 4})) for _ in range(50)]

    assert tokens(1) == tokens(1)
    assert tokens(2**64 - 1) == tokens(2**64 - 1)
    assert tokens(1) != tokens(2)
    assert tokens(None) != tokens(None)


@given(
    LOGITS,
    st.lists(st.integers(0, SIZE - 1), max_size=20),
    st.lists(st.integers(0, 19), max_size=6, unique=True),
    st.floats(-2, 2),
    st.floats(-2, 2),
    st.sampled_from([1.0, 1.1, 1.5, 0.8]),
    st.dictionaries(st.integers(0, SIZE - 1), st.floats(-100, 100), max_size=3),
)
def test_penalties_and_bias(
    logits: Logits,
    seen: list[int],
    taken_back: list[int],
    frequency: float,
    presence: float,
    repeat: float,
    bias: dict[int, float],
) -> None:
    sampling = Sampling(
        frequency_penalty=frequency,
        presence_penalty=presence,
        repeat_penalty=repeat,
        logit_bias=bias,
    )
    sampler = Sampler(sampling)
    sampler.count(seen)
    sampler.count([seen[at] for at in taken_back if at < len(seen)], -1)
    left = Counter(token for at, token in enumerate(seen) if at not in taken_back)
    before = logits.copy()
    for token in range(SIZE):
        value = float(logits[token]) + bias.get(token, 0.0)
        if left[token]:
            value = value / repeat if value > 0 else value * repeat
            value -= left[token] * frequency + presence
        assert sampler._adjusted(logits)[token] == pytest.approx(value, abs=1e-3, rel=1e-4)
    assert (logits == before).all()


def test_a_bias_decides() -> None:
    logits = np.linspace(1, 0, SIZE, dtype=np.float32)
    greedy = Sampling(temperature=0)
    assert Sampler(greedy).choose(logits, Everything()) == 0
    assert Sampler(replace(greedy, logit_bias={7: 100})).choose(logits, Everything()) == 7
    assert Sampler(replace(greedy, logit_bias={0: -100})).choose(logits, Everything()) == 1
    # A bias is a wish, a constraint is not.
    assert Sampler(replace(greedy, logit_bias={7: 100})).choose(logits, Everything({3})) == 3


@pytest.mark.parametrize("repeat_penalty", [5e-324, 1e-38])
def test_the_smallest_penalty_is_a_preference_and_no_overflow(repeat_penalty: float) -> None:
    sampler = Sampler(Sampling(temperature=2, seed=1, repeat_penalty=repeat_penalty))
    sampler.count([3])
    logits = np.linspace(-8, 8, SIZE, dtype=np.float32)
    logits[3] = 5
    assert {sampler.choose(logits, Everything()) for _ in range(20)} == {3}
