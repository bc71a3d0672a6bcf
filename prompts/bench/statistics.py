"""Statistics of right and wrong answers. Pure; what is drawn is drawn with a fixed seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95
POWER = 0.8
RESAMPLES = 4000


@dataclass(frozen=True)
class Share:
    """How many of how many, with the bounds of Wilson's 95 % interval, all from 0 to 1."""

    right: int
    count: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.right / self.count if self.count else 0.0


def share(outcomes: Sequence[bool]) -> Share:
    """Of no outcomes it is anything from 0 to 1."""
    count, right = len(outcomes), sum(outcomes)
    if not count:
        return Share(0, 0, 0.0, 1.0)
    z = _z(1 - (1 - CONFIDENCE) / 2)
    rate, weight = right / count, z * z / count
    middle = rate + weight / 2
    spread = z * math.sqrt(rate * (1 - rate) / count + weight / (4 * count))
    low, high = ((middle + sign * spread) / (1 + weight) for sign in (-1, 1))
    # Rounded: of none right the lower bound is 0, not 2e-17.
    return Share(right, count, max(0.0, round(low, 12)), min(1.0, round(high, 12)))


@dataclass(frozen=True)
class Difference:
    """Two runs over the same rows. `only_a` and `only_b` are rows that only one of them got right.

    `value` is B's share of right answers less A's; `low` and `high` its 95 % bootstrap interval;
    `p` is of McNemar's exact test, two-sided.
    """

    rows: int
    only_a: int
    only_b: int
    value: float
    low: float
    high: float
    p: float

    @property
    def is_shown(self) -> bool:
        return self.p < 1 - CONFIDENCE

    @property
    def verdict(self) -> str:
        """A sentence that says no more than the rows show."""
        if not self.rows:
            return "nothing to compare: no row is in both runs"
        if not self.is_shown:
            return f"no difference shown (p = {self.p:.2g}, {self.rows} rows)"
        better = "B" if self.value > 0 else "A"
        return (
            f"{better} is better by {abs(self.value):.1%} of the rows"
            f" ({self.low:+.1%} to {self.high:+.1%}, p = {self.p:.2g}, {self.rows} rows)"
        )


def difference(pairs: Sequence[tuple[bool, bool]]) -> Difference:
    """`pairs` has for each row whether A and whether B was right."""
    only_a = sum(a and not b for a, b in pairs)
    only_b = sum(b and not a for a, b in pairs)
    if not pairs:
        return Difference(0, 0, 0, 0.0, -1.0, 1.0, 1.0)
    # Rows drawn with repetition: all that matters is how many of each of the three kinds come.
    chances = np.array([only_a, only_b, len(pairs) - only_a - only_b]) / len(pairs)
    drawn = np.random.default_rng(0).multinomial(len(pairs), chances, RESAMPLES)
    low, high = np.quantile((drawn[:, 1] - drawn[:, 0]) / len(pairs), [0.025, 0.975])
    return Difference(
        rows=len(pairs),
        only_a=only_a,
        only_b=only_b,
        value=(only_b - only_a) / len(pairs),
        low=float(low),
        high=float(high),
        p=mcnemar(only_a, only_b),
    )


def mcnemar(only_a: int, only_b: int) -> float:
    """Chance of a split at least as uneven if both were equally good. Exact, two-sided."""
    count = only_a + only_b
    tail = sum(math.comb(count, k) for k in range(min(only_a, only_b) + 1))
    # Whole numbers until the end: 2 ** count is no float for some thousand rows.
    return min(1.0, 2 * tail / (1 << count)) if count else 1.0


def rows_needed(wished: float, discordant: float) -> int:
    """Rows after which a difference of `wished` is shown with 80 % chance.

    `discordant` is the share of rows that just one of the two gets right, at least `wished`. The
    exact test shows nothing until there are some such rows, however uneven.
    """
    discordant = min(1.0, max(discordant, wished))
    if not 0 < wished <= 1:
        raise ValueError("a wished difference is above 0 and at most 1")
    alpha, beta = _z(1 - (1 - CONFIDENCE) / 2), _z(POWER)
    spread = alpha * math.sqrt(discordant) + beta * math.sqrt(discordant - wished**2)
    least = next(count for count in itertools.count(1) if mcnemar(count, 0) < 1 - CONFIDENCE)
    return max(math.ceil((spread / wished) ** 2), math.ceil(round(least / discordant, 9)))


def _z(chance: float) -> float:
    return NormalDist().inv_cdf(chance)
