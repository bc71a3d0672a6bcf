"""Stored results, a small file for each model, that later runs are held against row by row.

A file has what was asked, and for each template the cases that came out right and wrong:

    {"model": ..., "tool_choice": ..., "max_tokens": ..., "datasets": [...],
     "templates": {NAME: {"right": [IDS], "wrong": [IDS], "digests": {ID: DIGEST}}}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from prompts.bench.cases import Case
from prompts.bench.results import Arm, Row, answered, case_digest
from prompts.bench.statistics import Difference, difference
from server.errors import SetupError

T = TypeVar("T", str, int)
SHIPPED = Path(__file__).parent / "baselines"


@dataclass(frozen=True)
class Outcomes:
    """Ids of cases. `digests` are of what was asked, where that is known."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict)

    def has(self, case: Case) -> bool:
        """Whether it was asked this very case."""
        known = case.id in self.right or case.id in self.wrong
        return known and self.digests.get(case.id) in (None, case_digest(case))


@dataclass(frozen=True)
class Held:
    """A baseline (A) against later rows (B) of one template.

    `unanswered`: cases without an answer now. `changed`: cases that are others now, or gone.
    """

    difference: Difference
    unanswered: int
    changed: int


@dataclass(frozen=True)
class Baseline:
    """`datasets` hold the cases, among others."""

    model: str
    tool_choice: str
    max_tokens: int
    datasets: tuple[str, ...]
    templates: Mapping[str, Outcomes]

    @property
    def cases(self) -> frozenset[str]:
        """The ids of all cases that some template was asked."""
        return frozenset(id for one in self.templates.values() for id in one.right + one.wrong)

    def has(self, case: Case) -> bool:
        """Whether some template was asked this very case."""
        return any(one.has(case) for one in self.templates.values())


def baselines_of(
    rows: Sequence[Row], *, tool_choice: str | None, max_tokens: int | None, datasets: Sequence[str]
) -> list[Baseline]:
    """One for each model. Variants, baselines without the constraint and errors are left out.

    `tool_choice` and `max_tokens` are for rows that do not tell theirs, `auto` and 512 if None.
    Raises SetupError if rows of a model tell others, or several.
    """
    plain = [row for row in answered(rows) if row.arm == Arm(row.arm.model, row.arm.template)]
    made = []
    for model in sorted({row.arm.model for row in plain}):
        own = [row for row in plain if row.arm.model == model]
        templates = {
            name: _outcomes([row for row in own if row.arm.template == name])
            for name in sorted({row.arm.template for row in own})
        }
        asked = [row.asked for row in own if row.asked]
        choice = _only("tool choice", [one.tool_choice for one in asked], tool_choice, "auto")
        tokens = _only("number of tokens", [one.max_tokens for one in asked], max_tokens, 512)
        made.append(Baseline(model, choice, tokens, tuple(datasets), templates))
    return made


def _only(what: str, told: Sequence[T], given: T | None, default: T) -> T:
    found = list(dict.fromkeys(told))
    if given is not None and given not in found:
        found.append(given)
    if len(found) > 1:
        raise SetupError(
            f"the rows were asked with another {what}: {', '.join(map(str, found))}",
            hint="Store a run that was asked in one way only.",
        )
    return found[0] if found else default


def _outcomes(rows: Sequence[Row]) -> Outcomes:
    right, wrong = (
        tuple(sorted(row.case for row in rows if row.marks.right is wanted))
        for wanted in (True, False)
    )
    return Outcomes(right, wrong, {row.case: row.asked.case_digest for row in rows if row.asked})


def path_of(folder: Path, model: str) -> Path:
    """Where the baseline of a model is. Its name may hold anything, a slash too."""
    name = quote(model, safe="", errors="surrogatepass").replace("~", "%7E")
    return folder / f"{re.sub(r'^[.]', '%2E', name)}.json"


def write(folder: Path, baseline: Baseline) -> Path:
    """Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, baseline.model)
    path.write_text(json.dumps(asdict(baseline), ensure_ascii=False, indent=1) + "\n", "utf-8")
    return path


def read(folder: Path, model: str) -> Baseline:
    """Raises SetupError."""
    path = path_of(folder, model)
    if not path.is_file():
        there = ", ".join(sorted(unquote(one.stem) for one in folder.glob("*.json"))) or "none"
        raise SetupError(
            f"there is no baseline of {model} in {folder}",
            hint=f"Models that have one: {there}. `callwright bench keep RUN` writes one.",
        )
    try:
        return TypeAdapter(Baseline).validate_json(path.read_bytes())
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SetupError(f"{path} is no baseline: {first['msg']} at {where or 'its top'}") from None


def against(baseline: Baseline, cases: Sequence[Case], rows: Sequence[Row]) -> dict[str, Held]:
    """By template. `rows` are of the model that was asked now, whatever its name is there."""
    return {
        name: _held(one, cases, [row for row in rows if row.arm == Arm(row.arm.model, name)])
        for name, one in baseline.templates.items()
    }


def _held(outcomes: Outcomes, cases: Sequence[Case], rows: Sequence[Row]) -> Held:
    before = dict.fromkeys(outcomes.right, True) | dict.fromkeys(outcomes.wrong, False)
    same = [case.id for case in cases if outcomes.has(case)]
    now = {row.case: row.marks.right for row in answered(rows)}
    pairs = [(before[case], now[case]) for case in same if case in now]
    return Held(difference(pairs), len(same) - len(pairs), len(before) - len(same))
