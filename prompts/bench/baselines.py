"""Stored results, a small file for each model, that later runs are held against row by row.

A file has what was asked, and for each template the cases that came out right and wrong:

    {"model": ..., "tool_choice": ..., "max_tokens": ..., "datasets": [...],
     "templates": {NAME: {"right": [IDS], "wrong": [IDS]}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from prompts.bench.results import Arm, Row, answered
from prompts.bench.statistics import Difference, difference
from server.errors import SetupError

SHIPPED = Path(__file__).parent / "baselines"


@dataclass(frozen=True)
class Outcomes:
    """Ids of cases."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]


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


def baselines_of(
    rows: Sequence[Row], *, tool_choice: str, max_tokens: int, datasets: Sequence[str]
) -> list[Baseline]:
    """One for each model. Variants, baselines without the constraint and errors are left out."""
    plain = [row for row in answered(rows) if row.arm == Arm(row.arm.model, row.arm.template)]
    made = []
    for model in sorted({row.arm.model for row in plain}):
        own = [row for row in plain if row.arm.model == model]
        templates = {
            name: _outcomes([row for row in own if row.arm.template == name])
            for name in sorted({row.arm.template for row in own})
        }
        made.append(Baseline(model, tool_choice, max_tokens, tuple(datasets), templates))
    return made


def _outcomes(rows: Sequence[Row]) -> Outcomes:
    right, wrong = (
        tuple(sorted(row.case for row in rows if row.marks.right is wanted))
        for wanted in (True, False)
    )
    return Outcomes(right, wrong)


def path_of(folder: Path, model: str) -> Path:
    """Where the baseline of a model is."""
    return folder / f"{model}.json"


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
        there = ", ".join(sorted(one.stem for one in folder.glob("*.json"))) or "none"
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


def against(baseline: Baseline, rows: Sequence[Row]) -> dict[str, Difference]:
    """By template: the baseline (A) and `rows` (B), over the cases that both have."""
    found = {}
    for name, outcomes in baseline.templates.items():
        now = {
            row.case: row.marks.right
            for row in answered(rows)
            if row.arm == Arm(baseline.model, name)
        }
        before = dict.fromkeys(outcomes.right, True) | dict.fromkeys(outcomes.wrong, False)
        found[name] = difference([(before[case], now[case]) for case in before if case in now])
    return found
