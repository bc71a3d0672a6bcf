"""The report of a run: one HTML page that needs no network and no script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import get_args

from prompts.bench.failures import browser
from prompts.bench.lenient import Failure
from prompts.bench.looks import Look, looks
from prompts.bench.plots import interval_plot, speed_plot
from prompts.bench.results import Arm, Row
from prompts.bench.statistics import Share, rows_needed
from prompts.bench.style import STYLE
from prompts.bench.summary import ArmSummary, pairs, summarise

WISHED = 0.05
_TIMES = "Times are medians, from sending a request to the end of its answer"

Looks = Mapping[Arm, Look]


def page(rows: Sequence[Row], title: str) -> str:
    """The whole page. Text of models and data sets is escaped."""
    summaries = summarise(rows)
    look = looks([one.arm for one in summaries])
    cases = len({row.case for row in rows})
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(summaries)} arms, {cases} cases. Intervals are Wilson's, at 95%.</p>",
        _section("Summary", _summary_table(summaries, look), _about_times(summaries)),
        _section("Right answers", _each_model(summaries, look, interval_plot)),
        _section("Speed against accuracy", _each_model(summaries, look, speed_plot)),
        _section("Differences, row by row", _differences(rows, look), _DIFFERENCES),
        _section("To call or not to call", _confusion(summaries, look)),
        _section("What was wrong with answers", _faults(summaries, look), _FAULTS),
        _section("How calls were written", _failures(summaries, look), _FAILURES),
        _section("Wrong answers", browser(rows, look), _BROWSER if rows else ""),
    ]
    return _visible(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _visible(text: str) -> str:
    """The text with escapes for what would not be seen, turns others around or is no character."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_DIFFERENCES = (
    "Arms that differ in one thing, over the rows that both answered. Only A: rows that A alone"
    f" got right. Rows needed: how many a difference of {WISHED:.0%} would need to be shown."
)
_FAULTS = "What the checker found first in each wrong answer, counted in rows."
_FAILURES = (
    "What an application would have to forgive or could not use, counted in rows. Hollow dots are"
    " answers to the same prompts without the constraint, read as leniently as can be."
)
_BROWSER = "A mark for each arm, in the order of the summary. Open a case for its answers."


def _section(heading: str, content: str, note: str = "") -> str:
    if not content:
        return ""
    said = f"<p>{note}</p>" if note else ""
    return f"<h2>{heading}</h2>{said}<div class=wide>{content}</div>"


def _table(headings: Iterable[str], lines: Iterable[Sequence[str]], kind: str = "counts") -> str:
    """A line of one cell is a heading between lines."""
    names = list(headings)
    head = "".join(f"<th>{one}</th>" for one in names)
    rows = "".join(
        f"<tr class=model><td colspan={len(names)}>{line[0]}</td></tr>"
        if len(line) == 1
        else f"<tr>{''.join(f'<td>{x}</td>' for x in line)}</tr>"
        for line in lines
    )
    return f"<table class={kind}><tr>{head}</tr>{rows}</table>"


def _by_model(
    summaries: Sequence[ArmSummary], look: Looks, cells: Callable[[ArmSummary], Iterable[str]]
) -> Iterator[list[str]]:
    for model in dict.fromkeys(one.arm.model for one in summaries):
        yield [escape(model)]
        for one in summaries:
            if one.arm.model == model:
                yield [look[one.arm].dot + look[one.arm].label, *cells(one)]


def _each_model(
    summaries: Sequence[ArmSummary],
    look: Looks,
    plot: Callable[[Sequence[ArmSummary], Looks], str],
) -> str:
    parts = []
    for model in dict.fromkeys(one.arm.model for one in summaries):
        own = [one for one in summaries if one.arm.model == model]
        keys = "".join(f"<span>{look[x.arm].dot}{look[x.arm].label}</span>" for x in own)
        if drawn := plot(own, look):
            heading = f"<h3>{escape(model)}</h3><div class=keys>{keys}</div>"
            parts.append(f"<div>{heading}{drawn}</div>")
    return f"<div class=models>{''.join(parts)}</div>" if parts else ""


def _about_times(summaries: Sequence[ArmSummary]) -> str:
    if any(one.cached_tokens for one in summaries):
        return (
            f"{_TIMES}. Some tokens of the prompts were cached by the server, so times of arms that"
            " share prompts cannot be compared."
        )
    return f"{_TIMES}."


def _summary_table(summaries: Sequence[ArmSummary], look: Looks) -> str:
    headings = (
        "Arm", "Right", "95%", "Names", "Arguments", "JSON", "Schema", "Optional +/−",
        "Tokens in", "cached", "out", "Passes", "First", "Time", "Errors",
    )  # fmt: skip
    return _table(headings, _by_model(summaries, look, _summary_cells))


def _summary_cells(one: ArmSummary) -> list[str]:
    return [
        f"<b>{_percent(one.right)}</b>",
        f"{one.right.low:.0%}–{one.right.high:.0%}",
        *map(_percent, (one.names, one.arguments, one.valid_json, one.valid_schema)),
        f"{one.added_optional} / {one.missing_optional}",
        *map(_number, (one.prompt_tokens, one.cached_tokens)),
        *map(_number, (one.output_tokens, one.forward_passes)),
        *(_number(value, " s", 2) for value in (one.first_s, one.wall_s)),
        str(one.errors),
    ]


def _percent(one: Share) -> str:
    return f"{one.value:.0%}" if one.count else "–"


def _number(value: float | None, unit: str = "", digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def _differences(rows: Sequence[Row], look: Looks) -> str:
    lines: dict[str, list[Sequence[str]]] = {}
    for a, b, found in pairs(rows):
        discordant = (found.only_a + found.only_b) / max(1, found.rows)
        names = (look[one].dot + look[one].label for one in (a, b))
        counts = (str(found.only_a), str(found.only_b), str(rows_needed(WISHED, discordant)))
        models = a.model if a.model == b.model else f"A: {a.model}, B: {b.model}"
        group = lines.setdefault(escape(models), [])
        group.append((*names, *counts, found.verdict))
    headings = ("A", "B", "Only A", "Only B", "Rows needed", "McNemar's test")
    shown = [line for name in lines for line in ([name], *lines[name])]
    return _table(headings, shown, "words") if shown else ""


def _confusion(summaries: Sequence[ArmSummary], look: Looks) -> str:
    headings = ("Arm", "Call, needed", "No call, needed", "Call, none fits", "No call, none fits")
    cells = ((True, True), (True, False), (False, True), (False, False))
    lines = _by_model(
        summaries, look, lambda one: (str(one.confusion.get(cell, 0)) for cell in cells)
    )
    return _table(headings, lines) if summaries else ""


def _faults(summaries: Sequence[ArmSummary], look: Looks) -> str:
    names = dict.fromkeys(name for one in summaries for name in one.faults)
    return _counts(summaries, look, tuple(names), lambda one: one.faults)


def _failures(summaries: Sequence[ArmSummary], look: Looks) -> str:
    return _counts(summaries, look, get_args(Failure), lambda one: one.failures)


def _counts(
    summaries: Sequence[ArmSummary],
    look: Looks,
    names: Sequence[str],
    counted: Callable[[ArmSummary], Mapping[str, int]],
) -> str:
    if not names or not summaries:
        return ""
    lines = _by_model(
        summaries, look, lambda one: (str(counted(one).get(name, 0) or "·") for name in names)
    )
    return _table(("Arm", *(name.replace("_", " ") for name in names)), lines)
