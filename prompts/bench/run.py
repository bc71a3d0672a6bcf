"""A run: every case under every arm, some at the same time, each answer written as it comes.

The arms of a case are asked one after the other, in an order drawn for each case. So whatever makes
the machine slow for a while makes all arms slow, and none always comes first, when others that
share its prompt have not been there yet.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from prompts.bench.cases import Case, JsonObject
from prompts.bench.results import (
    DEFAULT_TEMPLATE,
    Answer,
    Arm,
    Row,
    answered,
    cut_unfinished,
    judge,
    read_rows,
    write_row,
)
from prompts.bench.variants import vary

Ask = Callable[[Arm, Case], Awaitable[Answer]]
RESULTS = "results.jsonl"


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


def left_to_do(arms: Sequence[Arm], cases: Sequence[Case], path: Path) -> list[tuple[Arm, Case]]:
    """What `path` has no answer to yet. Arms change fastest: an early end leaves pairs of rows.

    Categories take turns, so that an early end leaves rows of each.
    """
    done = {row.key for row in answered(read_rows(path))} if path.is_file() else set()
    return [
        (arm, case)
        for case in _in_turns(cases)
        for arm in random.Random(case.id).sample(arms, len(arms))
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
    todo: Sequence[tuple[Arm, Case]],
    ask: Ask,
    path: Path,
    *,
    pool: Sequence[Case],
    parallel: int,
    tick: Callable[[Row], None],
) -> None:
    """Ask for all of `todo`, `parallel` at a time, and append each row to `path` at once.

    Distractors are taken from the tools of `pool`.

    What was written stays when it is cancelled; the same call goes on from there. Raises OSError
    if a row cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_unfinished(path)
    waiting = iter(todo)
    with path.open("a", encoding="utf-8") as file:

        async def work() -> None:
            for arm, case in waiting:
                varied = vary(case, arm.variant, pool)
                row = judge(arm, varied, await ask(arm, varied))
                file.write(write_row(row) + "\n")
                file.flush()
                tick(row)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(parallel, len(todo))):
                    group.create_task(work())
        except ExceptionGroup as failed:  # a full disk, say, which the command can tell
            raise failed.exceptions[0] from None
