"""Statistics of few and noisy values. Pure; intervals are drawn with a fixed seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 4000


@dataclass(frozen=True)
class Spread:
    """Of at least one value: median, and what nine of ten stay under."""

    median: float
    p90: float


def spread(values: Sequence[float]) -> Spread | None:
    """None of no values."""
    if not values:
        return None
    return Spread(float(np.median(values)), float(np.quantile(values, 0.9)))


def median(values: Sequence[float]) -> float | None:
    """None of no values."""
    return float(np.median(values)) if values else None


@dataclass(frozen=True)
class Ratio:
    """First server over second, a value for each round that both completed.

    `low` and `high` bound the median with 95 % confidence, by bootstrap. With fewer than about
    six pairs they are little more than the least and the greatest pair.
    """

    pairs: tuple[float, ...]
    median: float
    low: float
    high: float


def ratio(pairs: Sequence[tuple[float | None, float | None]]) -> Ratio | None:
    """None if no pair has two values. A value that is not above 0 makes no pair either."""
    quotients = [a / b for a, b in pairs if a and b and a > 0 and b > 0]
    if not quotients:
        return None
    values = np.array(quotients)
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return Ratio(tuple(quotients), float(np.median(values)), float(low), float(high))
