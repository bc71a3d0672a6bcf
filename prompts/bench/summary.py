"""Numbers of a run, per arm: what tables, plots and JSON show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import combinations
from statistics import fmean, median

from prompts.bench.cases import JsonObject
from prompts.bench.results import Answer, Arm, Row, answered, arms_of, compare
from prompts.bench.statistics import Difference, Share, share


@dataclass(frozen=True)
class ArmSummary:
    """Shares are of the answered rows; `arguments` of those with the right names of expected calls,
    `valid_json` and `valid_schema` of those with a call, or with something that was to be one.

    Times are medians in seconds, tokens and passes means per answer; None where nobody told.
    `confusion` counts (a call was needed, a call was made).
    """

    arm: Arm
    errors: int
    right: Share
    categories: dict[str, Share]
    names: Share
    arguments: Share
    valid_json: Share
    valid_schema: Share
    added_optional: int
    missing_optional: int
    confusion: dict[tuple[bool, bool], int]
    failures: dict[str, int]
    faults: dict[str, int]
    prompt_tokens: float | None
    cached_tokens: float | None
    output_tokens: float | None
    forward_passes: float | None
    first_s: float | None
    wall_s: float | None


def summarise(rows: Sequence[Row]) -> list[ArmSummary]:
    """A summary for each arm, in the order of `arms_of`."""
    return [_summary(arm, [row for row in rows if row.arm == arm]) for arm in arms_of(rows)]


def _summary(arm: Arm, all_rows: Sequence[Row]) -> ArmSummary:
    rows = list(answered(all_rows))
    marks = [row.marks for row in rows]
    called = [one for one in marks if one.called or one.failures]
    compared = [row.marks.arguments_right for row in rows if row.need == "calls"]
    answers = [row.answer for row in rows]
    groups: dict[str, list[bool]] = {}
    for row in rows:
        groups.setdefault(row.category, []).append(row.marks.right)
    return ArmSummary(
        arm=arm,
        errors=len(all_rows) - len(rows),
        right=share([one.right for one in marks]),
        categories={name: share(outcomes) for name, outcomes in groups.items()},
        names=share([one.name_right for one in marks]),
        arguments=share([one for one in compared if one is not None]),
        valid_json=share([one.valid_json for one in called]),
        valid_schema=share([one.valid_schema for one in called]),
        added_optional=sum(one.added_optional for one in marks),
        missing_optional=sum(one.missing_optional for one in marks),
        confusion=dict(Counter((row.need != "none", row.marks.called) for row in rows)),
        failures=dict(Counter(name for one in marks for name in one.failures).most_common()),
        faults=dict(Counter(str(one.fault) for one in marks if one.fault).most_common()),
        prompt_tokens=_over(fmean, answers, lambda one: one.prompt_tokens),
        cached_tokens=_over(fmean, answers, lambda one: one.cached_tokens),
        output_tokens=_over(fmean, answers, lambda one: one.output_tokens),
        forward_passes=_over(fmean, answers, lambda one: one.forward_passes),
        first_s=_over(median, answers, lambda one: one.first_s),
        wall_s=_over(median, answers, lambda one: one.wall_s),
    )


def _over(
    fold: Callable[[list[float]], float],
    answers: Sequence[Answer],
    value: Callable[[Answer], float | None],
) -> float | None:
    values = [float(one) for answer in answers if (one := value(answer)) is not None]
    return fold(values) if values else None


def pairs(rows: Sequence[Row]) -> list[tuple[Arm, Arm, Difference]]:
    """Every two arms that differ in one thing, compared by the cases that both answered."""
    by_arm = {arm: [row for row in rows if row.arm == arm] for arm in arms_of(rows)}
    return [
        (a, b, compare(by_arm[a], by_arm[b]))
        for a, b in combinations(by_arm, 2)
        if sum(one != other for one, other in zip(astuple(a), astuple(b), strict=True)) == 1
    ]


def to_json(summaries: Sequence[ArmSummary]) -> list[JsonObject]:
    """For the last line of the command."""
    made = []
    for one in summaries:
        data = asdict(one) | {"name": one.arm.name}
        data["confusion"] = [
            {"needed": needed, "called": called, "count": count}
            for (needed, called), count in one.confusion.items()
        ]
        made.append(data)
    return made
