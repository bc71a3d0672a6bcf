"""A run: every case under every arm, some at the same time, each answer written as it comes.

The arms of a case are asked one after the other, in an order drawn for each case. So whatever makes
the machine slow for a while makes all arms slow, and none always comes first, when others that
share its prompt have not been there yet.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prompts.bench.cases import Case, JsonObject
from prompts.bench.results import (
    DEFAULT_TEMPLATE,
    Answer,
    Arm,
    Asked,
    Row,
    answered,
    case_digest,
    cut_unfinished,
    digest,
    judge,
    read_rows,
    write_row,
)
from prompts.bench.variants import vary

Ask = Callable[[Arm, Case], Awaitable[Answer]]
RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Plan:
    """Every case is asked under every arm. Distractors are taken from the tools of `pool`."""

    arms: Sequence[Arm]
    cases: Sequence[Case]
    pool: Sequence[Case]
    tool_choice: str = "auto"
    max_tokens: int = 512

    def asked(self) -> Mapping[tuple[Arm, str], Asked]:
        """How each case is asked under each arm. Raises SetupError if a variant cannot be made."""
        found: dict[tuple[Arm, str], Asked] = {}
        for case in self.cases:
            whole = case_digest(case)
            for variant in {arm.variant for arm in self.arms}:
                tools = digest(vary(case, variant, self.pool).tools)
                asked = Asked(self.tool_choice, self.max_tokens, whole, tools)
                found |= {(a, case.id): asked for a in self.arms if a.variant == variant}
        return found


def body_of(arm: Arm, case: Case, *, tool_choice: str, max_tokens: int) -> JsonObject:
    """The request of a case, without `stream`."""
    body: JsonObject = {
        "model": arm.model,
        "messages": list(case.messages),
        "tools": list(case.tools),
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    if tool_choice != "auto":
        body["tool_choice"] = tool_choice
    if arm.template != DEFAULT_TEMPLATE:
        body["prompt_template"] = arm.template
    return body


def planned_rows(plan: Plan, path: Path) -> list[Row]:
    """The rows of `path` that the plan asks for, in just this way. Raises SetupError."""
    asked = plan.asked()
    rows = read_rows(path) if path.is_file() else []
    return [row for row in rows if row.key in asked and row.asked in (None, asked[row.key])]


def left_to_do(plan: Plan, path: Path) -> list[tuple[Arm, Case]]:
    """What `path` has no answer to yet. Arms change fastest: an early end leaves pairs of rows.

    Categories take turns, so that an early end leaves rows of each.
    """
    done = {row.key for row in answered(planned_rows(plan, path))}
    return [
        (arm, case)
        for case in _in_turns(plan.cases)
        for arm in random.Random(case.id).sample(plan.arms, len(plan.arms))
        if (arm, case.id) not in done
    ]


def _in_turns(cases: Sequence[Case]) -> list[Case]:
    """Each category evenly over the whole."""
    counts = Counter(case.category for case in cases)
    seen: Counter[str] = Counter()
    places = []
    for case in cases:
        seen[case.category] += 1
        places.append(seen[case.category] / counts[case.category])
    return [case for _, case in sorted(zip(places, cases, strict=True), key=lambda one: one[0])]


async def run(
    plan: Plan,
    todo: Sequence[tuple[Arm, Case]],
    ask: Ask,
    path: Path,
    *,
    parallel: int,
    tick: Callable[[Row], None],
) -> None:
    """Ask for all of `todo`, `parallel` at a time, and append each row to `path` at once.

    `todo` is of the plan. What was written stays when it is cancelled; the same call goes on from
    there. Raises OSError if a row cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_unfinished(path)
    waiting, asked = iter(todo), plan.asked()
    with path.open("a", encoding="utf-8") as file:

        async def work() -> None:
            for arm, case in waiting:
                varied = vary(case, arm.variant, plan.pool)
                row = judge(arm, varied, await ask(arm, varied))
                row = replace(row, asked=asked[arm, case.id])
                file.write(write_row(row) + "\n")
                file.flush()
                tick(row)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(parallel, len(todo))):
                    group.create_task(work())
        except ExceptionGroup as failed:  # a full disk, say, which the command can tell
            raise failed.exceptions[0] from None
