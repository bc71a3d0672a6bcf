"""The report of a run: one HTML page that needs no network and no script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from prompts.bench.plots import COLOURS, interval_plot, speed_plot
from prompts.bench.results import Row
from prompts.bench.statistics import Share, rows_needed
from prompts.bench.summary import ArmSummary, pairs, summarise

WISHED = 0.05

_STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2127; --soft: #667380; --line: #dde2e7;
  --card: #f6f8fa; --good: #1a7f45; --bad: #b3342b; --c0: #2563c9; --c1: #d2691e; --c2: #1a8a5a;
  --c3: #9340b8; --c4: #b8860b; --c5: #c2346b; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181d; --fg: #e3e8ed; --soft: #95a1ad;
  --line: #303841; --card: #1c2229; --good: #57c785; --bad: #f0837a; --c0: #6ea3f5; --c1: #f0a060;
  --c2: #5fcf9d; --c3: #cb8be8; --c4: #e3be5a; --c5: #f083ad; } }
* { box-sizing: border-box } body { margin: 0 auto; max-width: 1080px; padding: 24px 16px 80px;
  font: 15px/1.5 system-ui, sans-serif; background: var(--bg); color: var(--fg) }
h1 { font-size: 1.7em; margin: 0 } h2 { font-size: 1.2em; margin: 2.2em 0 .5em }
p, .soft { color: var(--soft) } .wide { overflow-x: auto } table { border-collapse: collapse }
th, td { padding: 5px 12px 5px 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left } th { color: var(--soft); font-weight: 500 }
svg { width: 100%; max-width: 860px; height: auto; display: block } svg text { fill: var(--soft);
  font-size: 12px } .label { text-anchor: end } .tick { text-anchor: middle }
.grid { stroke: var(--line) } .dot { display: inline-block; width: .7em; height: .7em;
  border-radius: 50%; margin-right: .5em } details { border: 1px solid var(--line);
  border-radius: 6px; margin: 6px 0; background: var(--card) } summary { padding: 6px 12px;
  cursor: pointer; overflow-wrap: anywhere } details > div { padding: 0 12px 10px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 2px 0 10px; font-size: 13px }
b.good { color: var(--good) } b.bad { color: var(--bad) }
"""


def page(rows: Sequence[Row], title: str) -> str:
    """The whole page. Text of models and data sets is escaped."""
    summaries = summarise(rows)
    cases = len({row.case for row in rows})
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(summaries)} arms, {cases} cases. Intervals are Wilson's, at 95 %.</p>",
        _section("Summary", _summary_table(summaries)),
        _section("Accuracy", interval_plot(summaries)),
        _section("Speed against accuracy", speed_plot(summaries)),
        _section("Differences, row by row", _differences(rows)),
        _section("To call or not to call", _confusion(summaries)),
        _section("What went wrong", _faults(summaries)),
        _section("Wrong answers", "".join(_failure(row) for row in rows if _is_shown(row))),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _section(heading: str, content: str) -> str:
    return f"<h2>{heading}</h2><div class=wide>{content}</div>" if content else ""


def _table(headings: Iterable[str], lines: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{one}</th>" for one in headings)
    rows = "".join(f"<tr>{''.join(f'<td>{x}</td>' for x in line)}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{rows}</table>"


def _summary_table(summaries: Sequence[ArmSummary]) -> str:
    headings = (
        "Arm", "Right", "95 %", "Names", "Arguments", "JSON", "Schema", "Optional +/−",
        "Tokens in", "out", "Passes", "First", "Time", "Errors",
    )  # fmt: skip
    return _table(headings, (_summary_line(at, one) for at, one in enumerate(summaries)))


def _summary_line(at: int, one: ArmSummary) -> list[str]:
    return [
        _arm(at, one),
        f"<b>{_percent(one.right)}</b>",
        f"{one.right.low:.0%}–{one.right.high:.0%}",
        *map(_percent, (one.names, one.arguments, one.valid_json, one.valid_schema)),
        f"{one.added_optional} / {one.missing_optional}",
        *map(_number, (one.prompt_tokens, one.output_tokens, one.forward_passes)),
        *(_number(value, " s", 2) for value in (one.first_s, one.wall_s)),
        str(one.errors),
    ]


def _arm(at: int, one: ArmSummary) -> str:
    dot = f'<span class=dot style="background: var(--c{at % COLOURS})"></span>'
    return dot + escape(one.arm.name)


def _percent(one: Share) -> str:
    return f"{one.value:.1%}" if one.count else "–"


def _number(value: float | None, unit: str = "", digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def _differences(rows: Sequence[Row]) -> str:
    lines = []
    for a, b, found in pairs(rows):
        discordant = (found.only_a + found.only_b) / max(1, found.rows)
        needed = f"{rows_needed(WISHED, discordant)} rows"
        counts = (str(found.only_a), str(found.only_b))
        lines.append((escape(a.name), escape(b.name), *counts, found.verdict, needed))
    headings = ("A", "B", "Only A", "Only B", "McNemar's test", f"For {WISHED:.0%}")
    return _table(headings, lines) if lines else ""


def _confusion(summaries: Sequence[ArmSummary]) -> str:
    headings = ("Arm", "Call, needed", "No call, needed", "Call, none fits", "No call, none fits")
    cells = ((True, True), (True, False), (False, True), (False, False))
    lines = (
        (_arm(at, one), *(str(one.confusion.get(cell, 0)) for cell in cells))
        for at, one in enumerate(summaries)
    )
    return _table(headings, lines)


def _faults(summaries: Sequence[ArmSummary]) -> str:
    names = dict.fromkeys(name for one in summaries for name in (*one.faults, *one.failures))
    if not names:
        return ""
    lines = (
        (
            _arm(at, one),
            *(str(max(one.faults.get(n, 0), one.failures.get(n, 0)) or "") for n in names),
        )
        for at, one in enumerate(summaries)
    )
    return _table(("Arm", *(name.replace("_", " ") for name in names)), lines)


def _is_shown(row: Row) -> bool:
    return row.answer.error is not None or not row.marks.right


def _failure(row: Row) -> str:
    answer = row.answer
    said = "\n".join(f"{name}({text})" for name, text in answer.calls)
    said = said + (f"\n{answer.text}" if answer.text else "")
    why = answer.error or f"{row.marks.fault}: {row.marks.detail}"
    expected = "\n".join(
        f"{name}({json.dumps(accepted, ensure_ascii=False)})"
        for call in row.expected
        for name, accepted in call.items()
    )
    return (
        f"<details><summary><b>{escape(row.case)}</b> <span class=soft>{escape(row.arm.name)}"
        f"</span> – {escape(why)}</summary><div>"
        f"<span class=soft>Asked</span><pre>{escape(row.question)}</pre>"
        f"<b class=good>Expected</b><pre>{escape(expected or _NEED[row.need])}</pre>"
        f"<b class=bad>Answered</b><pre>{escape(said or '(nothing)')}</pre></div></details>"
    )


_NEED = {"none": "no call", "some": "any call", "calls": "calls"}
