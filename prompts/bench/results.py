"""Rows of a run, a line of JSON each, so that a run can be resumed and compared later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from prompts.bench.cases import Case, JsonObject
from prompts.bench.lenient import Reading, read_calls, read_text
from prompts.bench.marks import Marks, mark
from prompts.bench.statistics import Difference, difference
from prompts.bench.variants import PLAIN
from server.errors import SetupError

DEFAULT_TEMPLATE = "default"


@dataclass(frozen=True)
class Arm:
    """What is compared: a model with a template. `default`: whatever the server uses.

    `constrained` is false for the baseline: the same prompt, and free text for an answer.
    `variant` is what was changed about the tools.
    """

    model: str
    template: str = DEFAULT_TEMPLATE
    constrained: bool = True
    variant: str = PLAIN

    @property
    def name(self) -> str:
        parts = [self.model, self.template]
        parts += [] if self.variant == PLAIN else [self.variant]
        return " / ".join(parts + ([] if self.constrained else ["unconstrained"]))


@dataclass(frozen=True)
class Answer:
    """What came; `calls` are names and arguments as text. Times in seconds from the sending.

    `prompt` is what the model read, with its template. `cached_tokens` of it had been read before.
    `call_margin`: by how much the best token that opens a call was above the best other one, where
    the answer could begin with either.

    None is what the server does not tell; `cut`: it ended at the token limit. With an `error`
    there is no answer to judge.
    """

    calls: tuple[tuple[str, str], ...] = ()
    text: str = ""
    wall_s: float = 0.0
    first_s: float | None = None
    prompt: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    forward_passes: int | None = None
    call_margin: float | None = None
    cut: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Asked:
    """How a case was asked, by which it is known again: its id may be a mere position.

    Digests are of the case, and of its tools as the arm's variant made them.
    """

    tool_choice: str
    max_tokens: int
    case_digest: str
    tools_digest: str


def case_digest(case: Case) -> str:
    """Another one wherever something else is asked or expected."""
    expected = [[one.name, dict(one.accepted)] for one in case.expected]
    return digest([case.messages, case.tools, case.need, expected])


def digest(value: Any) -> str:
    """A short text for what may be written as JSON. The order of keys matters, to a prompt too."""
    text = json.dumps(value, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Row:
    """One case under one arm. `question` and `expected` are there to be shown.

    `asked` is None in rows of earlier versions, which count as asked like any other row.
    """

    arm: Arm
    case: str
    category: str
    need: str
    question: str
    expected: list[JsonObject]
    answer: Answer
    marks: Marks
    asked: Asked | None = None

    @property
    def key(self) -> tuple[Arm, str]:
        return self.arm, self.case


def judge(arm: Arm, case: Case, answer: Answer) -> Row:
    """The row of an answer. Text is read for calls only where nothing constrained it."""
    reading = read_calls(answer.calls)
    if not arm.constrained and not answer.calls:
        reading = read_text(answer.text, case.types)
    if answer.cut:  # what is broken then is no fault of the writing
        failures = ("cut_off" if one == "broken_json" else one for one in reading.failures)
        reading = Reading(reading.calls, tuple(failures))
    return Row(
        arm=arm,
        case=case.id,
        category=case.category,
        need=case.need,
        question="\n".join(f"{one['role']}: {one.get('content')}" for one in case.messages),
        expected=[{one.name: dict(one.accepted)} for one in case.expected],
        answer=answer,
        marks=mark(case, reading),
    )


def write_row(row: Row) -> str:
    """A line of JSON, without its end."""
    return json.dumps(asdict(row), ensure_ascii=False)


def read_row(line: str) -> Row:
    """Raises ValueError, KeyError or TypeError for what is no row."""
    data: dict[str, Any] = json.loads(line)
    answer, marks, asked = data.pop("answer"), data.pop("marks"), data.pop("asked", None)
    answer["calls"] = tuple((name, text) for name, text in answer["calls"])
    marks["failures"] = tuple(marks["failures"])
    return Row(
        arm=Arm(**data.pop("arm")),
        answer=Answer(**answer),
        marks=Marks(**marks),
        asked=asked and Asked(**asked),
        **data,
    )


def read_rows(path: Path) -> list[Row]:
    """All rows of `results.jsonl`, or of the folder it is in; of repeated ones the last.

    A last line that a killed run did not finish is left out. Raises SetupError.
    """
    path = path / "results.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise SetupError(f"there is no {path}", hint="`callwright bench templates` writes one.")
    *lines, _unfinished = path.read_bytes().split(b"\n")
    rows: dict[tuple[Arm, str], Row] = {}
    for at, line in enumerate(lines, start=1):
        try:
            row = read_row(line.decode("utf-8"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise SetupError(f"{path}, line {at} is no row of a benchmark: {exc}") from None
        rows[row.key] = row
    return list(rows.values())


def cut_unfinished(path: Path) -> None:
    """Take away what a killed run left of a line, so that the next row begins one."""
    if path.is_file():
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            path.write_bytes(whole)


def answered(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows without an error of the server, which are not asked again."""
    return (row for row in rows if row.answer.error is None)


def arms_of(rows: Iterable[Row]) -> list[Arm]:
    """By name; each baseline directly after what it is one of."""
    arms = {row.arm for row in rows}
    return sorted(arms, key=lambda one: (replace(one, constrained=True).name, one.name))


def compare(a: Sequence[Row], b: Sequence[Row]) -> Difference:
    """Two runs of one arm each, over the cases that both answered and that are the same in both."""
    pairs = [pair for pair in _paired(answered(a), answered(b)) if is_same_case(*pair)]
    return difference([(one.marks.right, other.marks.right) for one, other in pairs])


def changed_cases(a: Sequence[Row], b: Sequence[Row]) -> int:
    """How many cases have the same id in both runs of one arm, and are others."""
    return sum(not is_same_case(*pair) for pair in _paired(a, b))


def _paired(a: Iterable[Row], b: Iterable[Row]) -> list[tuple[Row, Row]]:
    before = {row.case: row for row in a}
    return [(before[row.case], row) for row in b if row.case in before]


def is_same_case(a: Row, b: Row) -> bool:
    """Of rows with the same id; what is not known is taken to be equal."""
    if a.asked is None or b.asked is None:
        return True
    same_tools = a.arm.variant != b.arm.variant or a.asked.tools_digest == b.asked.tools_digest
    return same_tools and a.asked.case_digest == b.asked.case_digest
