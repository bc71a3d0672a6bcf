"""The failure browser: each case that an arm got wrong, with prompt, answer and difference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from prompts.bench.cases import JsonObject
from prompts.bench.looks import Look
from prompts.bench.results import Arm, Row
from prompts.bench.scoring import plain

_NEED = {"none": "no call", "some": "any call", "calls": "calls"}


def browser(rows: Sequence[Row], look: Mapping[Arm, Look]) -> str:
    """A block for each case with a wrong answer; inside, what each arm said, the right ones too."""
    by_case: dict[str, list[Row]] = {}
    order = list(look)
    for row in sorted(rows, key=lambda one: order.index(one.arm)):
        by_case.setdefault(row.case, []).append(row)
    wrong = {name: group for name, group in by_case.items() if not all(map(_is_right, group))}
    parts = []
    for category in dict.fromkeys(group[0].category for group in wrong.values()):
        groups = [group for group in wrong.values() if group[0].category == category]
        total = len({row.case for row in rows if row.category == category})
        parts.append(f"<h3>{escape(category)}: {len(groups)} of {total} cases</h3>")
        parts += [_case(group, look) for group in groups]
    return "".join(parts)


def _is_right(row: Row) -> bool:
    return row.answer.error is None and row.marks.right


def _case(group: Sequence[Row], look: Mapping[Arm, Look]) -> str:
    first = group[0]
    verdicts = "".join(
        f'<span class={"good" if _is_right(row) else "bad"} title="{look[row.arm].title}">'
        f"{'✓' if _is_right(row) else '✗'}</span>"
        for row in group
    )
    question = first.question.rpartition("user: ")[2]
    asked = question if len(question) < 160 else question[:160] + "…"
    return (
        f"<details class=case><summary><b>{escape(first.case)}</b>"
        f"<span class=verdicts>{verdicts}</span>"
        f'<span class="asked soft">{escape(asked)}</span></summary><div>'
        f"<span class=soft>Asked</span><pre>{escape(first.question)}</pre>"
        f"<span class=soft>Right</span><pre>{escape(_right(first))}</pre>"
        f"{''.join(_answer(row, look[row.arm]) for row in group)}</div></details>"
    )


def _right(row: Row) -> str:
    calls = [
        f"{name}({_shown(accepted)})" for one in row.expected for name, accepted in one.items()
    ]
    return "\n".join(calls) or _NEED[row.need]


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _answer(row: Row, look: Look) -> str:
    answer, right = row.answer, _is_right(row)
    why = "right" if right else answer.error or f"{row.marks.fault}: {row.marks.detail}"
    if not right and not answer.error and row.marks.fault is None:
        why = "not valid JSON"
    failures = ", ".join(row.marks.failures).replace("_", " ")
    said = "\n".join(f"{name}({text})" for name, text in answer.calls)
    said = "\n".join(filter(None, [answer.text, said])) or "(nothing)"
    prompt = ""
    if answer.prompt is not None:
        prompt = f"<details><summary>Prompt</summary><div><pre>{escape(answer.prompt)}</pre></div>"
        prompt += "</details>"
    return (
        f"<div class=answer>{look.dot}{look.title}: "
        f"<b class={'good' if right else 'bad'}>{escape(why.replace('_', ' '))}</b>"
        f"{f' <span class=soft>({failures})</span>' if failures else ''}"
        f"<pre>{escape(said)}</pre>{'' if right else _diff(row)}{prompt}</div>"
    )


def _diff(row: Row) -> str:
    """Each argument as it was expected and as it came, of calls in the order in which they came."""
    left = [(name, _object(text)) for name, text in row.answer.calls]
    lines: list[tuple[str, str, str, bool]] = []
    for one in row.expected:
        for name, accepted in one.items():
            given = next((call for call in left if call[0] == name), None)
            if given is None:
                lines.append((name, "a call", "–", False))
                continue
            left.remove(given)
            lines += _arguments(name, accepted, given[1])
    lines += [(name, "–", f"a call with {_shown(given)}", False) for name, given in left]
    if not row.answer.calls or row.need == "some":
        return ""
    cells = "".join(
        f"<tr><td>{escape(what)}</td><td>{escape(expected)}</td>"
        f'<td class="{"good" if same else "bad"}">{escape(came)}</td></tr>'
        for what, expected, came, same in lines
    )
    return (
        "<div class=wide><table class=diff><tr><th>argument</th><th>accepted</th><th>came</th></tr>"
        f"{cells}</table></div>"
    )


def _object(text: str) -> JsonObject:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _arguments(
    name: str, accepted: Mapping[str, Sequence[Any]], given: JsonObject
) -> Iterator[tuple[str, str, str, bool]]:
    for key in dict.fromkeys([*accepted, *given]):
        values = accepted.get(key, ())
        wanted = " or ".join("left out" if one == "" else _shown(one) for one in values)
        came = _shown(given[key]) if key in given else "–"
        same = _is_accepted(values, given[key]) if key in given else "" in values
        yield f"{name}.{key}", wanted or "–", came, same


def _is_accepted(values: Sequence[Any], given: Any) -> bool:
    """Near enough for colouring: inside of lists and objects the checker has more rules."""
    if isinstance(given, list):
        return any(
            isinstance(x, list) and list(map(plain, x)) == list(map(plain, given)) for x in values
        )
    if isinstance(given, dict):
        return any(
            isinstance(x, dict) and all(k in x and _is_accepted(x[k], v) for k, v in given.items())
            for x in values
        )
    return plain(given) in [plain(one) for one in values]
