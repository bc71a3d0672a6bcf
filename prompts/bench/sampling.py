"""A part of the cases: the first ones of each category, or some of all in their proportions."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from prompts.bench.cases import Case


def sample(cases: Sequence[Case], size: int, seed: int) -> list[Case]:
    """`size` cases, or all if there are no more; the same ones for the same seed.

    Each category gets its share, rounded, and at least one case as long as `size` allows it. The
    cases of a smaller sample are among those of a larger one of the same seed, save for rounding.
    """
    if size >= len(cases):
        return list(cases)
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.category].append(case)
    quotas = _quotas({name: len(group) for name, group in groups.items()}, size)
    chosen: set[str] = set()
    for name, group in groups.items():
        order = random.Random(f"{seed} {name}").sample(group, len(group))
        chosen.update(case.id for case in order[: quotas[name]])
    return [case for case in cases if case.id in chosen]


def rows_of(cases: Sequence[Case], skip: int, count: int | None) -> list[Case]:
    """`count` cases of each category after the first `skip`, or all; the categories take turns."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.category, []).append(case)
    places = [
        (place, case)
        for group in groups.values()
        for place, case in enumerate(group[skip:][:count])
    ]
    return [case for _, case in sorted(places, key=lambda one: one[0])]


def _quotas(counts: dict[str, int], size: int) -> dict[str, int]:
    """Largest remainders, after one for each category where there is room for it."""
    total = sum(counts.values())
    least = 1 if size >= len(counts) else 0
    ideal = {name: size * count / total for name, count in counts.items()}
    quotas = {name: max(least, int(one)) for name, one in ideal.items()}
    while sum(quotas.values()) > size:
        quotas[max(quotas, key=lambda name: quotas[name] - ideal[name] + quotas[name] / 1e6)] -= 1
    while sum(quotas.values()) < size:
        open_ones = [name for name in counts if quotas[name] < counts[name]]
        quotas[max(open_ones, key=lambda name: ideal[name] - quotas[name])] += 1
    return quotas
