from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from prompts.bench.cases import Case
from prompts.bench.report import page
from prompts.bench.results import (
    Answer,
    Arm,
    Asked,
    Row,
    changed_cases,
    compare,
    judge,
    read_row,
    read_rows,
    write_row,
)
from prompts.bench.run import Plan, body_of, left_to_do, planned_rows, run
from prompts.bench.summary import summarise, to_json
from server.errors import SetupError
from tests.prompts.bench.samples import TIME, case

A, B, FREE = Arm("m", "native"), Arm("m", "generic"), Arm("m", "native", constrained=False)
RIGHT = Answer((("get_weather", '{"city": "Porto"}'),), wall_s=1.5, first_s=0.5, output_tokens=20)
WRONG = Answer(
    (("get_time", "{}"),), "I <think> so", wall_s=2.0, forward_passes=9, prompt="<user>Weather?"
)


def cases(count: int = 4) -> list[Case]:
    return [case({"get_weather": {"city": ["Porto"]}}, id=f"c_{at}") for at in range(count)]


async def ask(arm: Arm, one: Case) -> Answer:
    if arm == FREE:
        return Answer(text='{"tool": "get_weather", "city": "Porto"}')
    return RIGHT if arm == A else WRONG


def plan_of(arms: list[Arm], of: list[Case], *, max_tokens: int = 9) -> Plan:
    return Plan(arms, of, of, "auto", max_tokens)


def run_all(path: Path, plan: Plan) -> list[Row]:
    """Those that were asked now."""
    seen: list[Row] = []
    asyncio.run(run(plan, left_to_do(plan, path), ask, path, parallel=2, tick=seen.append))
    return seen


def test_a_run_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    path, plan = tmp_path / "a" / "results.jsonl", plan_of([A, B], cases())
    assert len(run_all(path, plan)) == 8
    text = path.read_text()
    path.write_text(text[: text.rindex('"marks"')])  # as a killed run leaves it
    assert len(run_all(path, plan)) == 1
    assert sorted(row.key[1] for row in read_rows(path.parent)) == sorted(
        [f"c_{at}" for at in range(4)] * 2
    )
    assert left_to_do(plan, path) == []


def test_what_has_changed_is_asked_again_and_only_what_is_planned_is_told(tmp_path: Path) -> None:
    path, (one, *others) = tmp_path / "results.jsonl", cases()
    run_all(path, plan_of([A, B], [one, *others]))
    plan = plan_of([A], [replace(one, messages=({"role": "user", "content": "Now?"},)), *others])
    assert [row.case for row in planned_rows(plan, path)] == ["c_1", "c_2", "c_3"]
    assert [row.case for row in run_all(path, plan)] == ["c_0"]
    plan = replace(plan, cases=[case({"get_weather": {"city": ["Lima"]}}, id="c_0")])
    assert [row.case for row in run_all(path, plan)] == ["c_0"]
    plan = plan_of([A], others, max_tokens=10)
    assert len(run_all(path, plan)) == 3
    assert {row.asked and row.asked.max_tokens for row in planned_rows(plan, path)} == {10}
    assert len(left_to_do(replace(plan, tool_choice="required"), path)) == 3


def test_other_distractors_are_asked_anew(tmp_path: Path) -> None:
    path, arm = tmp_path / "results.jsonl", Arm("m", variant="distractors-1")
    pools = [[case(functions=[{**TIME, "name": name}])] for name in ("a", "b")]
    plans = [replace(plan_of([arm], cases()), pool=pool) for pool in pools]
    run_all(path, plans[0])
    assert left_to_do(plans[0], path) == []
    assert len(left_to_do(plans[1], path)) == 4


def test_rows_of_earlier_versions_count_as_they_are(tmp_path: Path) -> None:
    path, plan = tmp_path / "results.jsonl", plan_of([A], cases())
    lines = [json.loads(write_row(judge(A, one, RIGHT))) for one in cases()]
    for line in lines:
        del line["asked"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert left_to_do(plan, path) == []
    assert (changed_cases(planned_rows(plan, path), judged("Lima")), len(judged("Lima"))) == (0, 4)


def judged(city: str, arm: Arm = A) -> list[Row]:
    """Rows of four cases that expect this city."""
    found = [case({"get_weather": {"city": [city]}}, id=f"c_{at}") for at in range(4)]
    asked = plan_of([arm], found).asked()
    return [replace(judge(arm, one, RIGHT), asked=asked[arm, one.id]) for one in found]


def test_changed_cases_are_not_compared() -> None:
    a, b = judged("Porto"), [*judged("Porto")[:1], *judged("Lima")[1:]]
    assert (compare(a, b).rows, changed_cases(a, b)) == (1, 3)
    shuffled = judged("Porto", Arm("m", variant="shuffled"))
    assert (compare(a, shuffled).rows, changed_cases(a, shuffled)) == (4, 0)


def test_a_row_that_cannot_be_written_is_told_plainly(tmp_path: Path) -> None:
    def full(_: Row) -> None:
        raise OSError(28, "No space left on device")

    plan, path = plan_of([A], cases()), tmp_path / "results.jsonl"
    with pytest.raises(OSError, match="No space"):
        asyncio.run(run(plan, left_to_do(plan, path), ask, path, parallel=3, tick=full))


def test_no_arm_is_always_first_and_every_category_comes_soon(tmp_path: Path) -> None:
    several = [
        case(category=category, id=f"{category}_{at}")
        for category, count in (("simple_python", 20), ("multiple", 10))
        for at in range(count)
    ]
    plan = plan_of([A, B], several)
    todo = left_to_do(plan, tmp_path / "results.jsonl")
    assert todo == left_to_do(plan, tmp_path / "results.jsonl")
    assert [one.id for _, one in todo[::2]] == [one.id for _, one in todo[1::2]]
    assert {arm for arm, _ in todo[::2]} == {A, B}
    assert {one.category for _, one in todo[:6]} == {"simple_python", "multiple"}


def test_errors_are_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(write_row(judge(A, cases()[0], Answer(error="status 500"))) + "\n")
    assert len(left_to_do(plan_of([A], cases()), path)) == 4


def test_a_row_is_read_as_it_was_written() -> None:
    for answer in (RIGHT, WRONG, Answer(error="no")):
        for asked in (None, Asked("auto", 9, "abc", "def")):
            row = replace(judge(A, cases()[0], answer), asked=asked)
            assert read_row(write_row(row)) == row


@pytest.mark.parametrize("text", [b"{}\n", b"no\n", b"[]\n", b'"\xff"\n', b"[" * 100_000 + b"\n"])
def test_what_is_no_row(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(text)
    with pytest.raises(SetupError, match="line 1 is no row"):
        read_rows(path)
    with pytest.raises(SetupError, match="there is no"):
        read_rows(tmp_path / "other")


def test_only_unconstrained_text_is_read_for_calls() -> None:
    text = '{"name": "get_weather", "arguments": {"city": "Porto"}}'
    free, held = (judge(arm, cases()[0], Answer(text=text)) for arm in (FREE, A))
    assert (free.marks.right, held.marks.right, held.marks.fault) == (True, False, "no_call")


def test_a_call_that_was_cut_is_not_held_for_broken() -> None:
    answer = Answer((("get_weather", '{"city": "Po'),), cut=True)
    marks = judge(A, cases()[0], answer).marks
    assert (marks.right, marks.valid_json) == (False, False)
    assert "cut_off" in marks.failures
    assert "broken_json" not in marks.failures


def test_the_request() -> None:
    body = body_of(A, cases()[0], tool_choice="required", max_tokens=9)
    assert (body["prompt_template"], body["tool_choice"], body["max_tokens"]) == (
        "native", "required", 9,
    )  # fmt: skip
    plain = body_of(Arm("m"), cases()[0], tool_choice="auto", max_tokens=9)
    assert "prompt_template" not in plain
    assert "tool_choice" not in plain


def rows() -> list[Row]:
    answers = {A: RIGHT, B: WRONG, FREE: Answer(text='{"tool": "get_weather", "city": "Porto"}')}
    return [judge(arm, one, answer) for one in cases(8) for arm, answer in answers.items()]


def test_summaries() -> None:
    b, a, free = summarise(rows())
    assert (a.right.value, b.right.value, free.right.value) == (1, 0, 1)
    assert a.confusion == {(True, True): 8}
    assert (a.wall_s, a.first_s, a.forward_passes, b.forward_passes) == (1.5, 0.5, None, 9)
    assert free.failures == {"wrong_keys": 8}
    assert to_json([b])[0]["faults"] == {"wrong_name": 8}


def test_two_arms_are_compared_by_case() -> None:
    a = [row for row in rows() if row.arm == A]
    b = [row for row in rows() if row.arm == B]
    found = compare(a, b[:7])
    assert (found.rows, found.only_a, found.value) == (7, 7, -1)
    assert found.is_shown


class _Checker(HTMLParser):
    """Fails where elements do not nest, and notes addresses."""

    VOID = ("meta", "line", "circle")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str | None] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_page_without_network() -> None:
    text = page(rows(), "A <run>")
    checker = _Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.addresses == []
    assert "<script" not in text
    assert "A &lt;run&gt;" in text
    assert "I &lt;think&gt; so" in text
    assert "B is better by 100.0%" in text
    assert text.count("<details class=case>") == 8
    assert "prefers-color-scheme: dark" in text
    assert "<td>get_weather</td><td>a call</td>" in text  # what arm B should have called
    assert "<summary>Prompt</summary><div><pre>&lt;user&gt;" in text


def test_a_difference_is_shown_argument_by_argument() -> None:
    expected = {"get_weather": {"city": ["Porto", "Oporto"], "days": [3, ""], "tags": [["a b"]]}}
    answer = Answer((("get_weather", '{"city": "porto", "tags": ["c"], "limit": 1.5}'),))
    text = page([judge(A, case(expected), answer)], "x")
    lines = [line.split("<td>")[1:] for line in text.split("<tr>") if "get_weather." in line]
    shown = {one.partition("<")[0]: rest for one, *rest in lines}
    assert [name.partition(".")[2] for name in shown] == ["city", "days", "tags", "limit"]
    good = [name for name, rest in shown.items() if '"good"' in str(rest)]
    assert good == ["get_weather.city", "get_weather.days"]
    assert "&quot;Porto&quot; or &quot;Oporto&quot;" in str(shown["get_weather.city"])
    assert "3 or left out" in str(shown["get_weather.days"])


def test_times_over_a_cache_are_called_what_they_are() -> None:
    cold, warm = (replace(RIGHT, cached_tokens=count) for count in (0, 7))
    assert "cannot be compared" not in page([judge(A, cases()[0], cold)], "x")
    assert "cannot be compared" in page([judge(A, cases()[0], warm)], "x")


def test_a_report_without_rows() -> None:
    assert "0 arms" in page([], "nothing")
