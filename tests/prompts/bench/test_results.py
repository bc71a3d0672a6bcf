from __future__ import annotations

import asyncio
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from prompts.bench.cases import Case
from prompts.bench.report import page
from prompts.bench.results import Answer, Arm, Row, compare, judge, read_row, read_rows, write_row
from prompts.bench.run import body_of, left_to_do, run
from prompts.bench.summary import summarise, to_json
from server.errors import SetupError
from tests.prompts.bench.samples import case

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


def run_all(path: Path, arms: list[Arm], seen: list[Row]) -> None:
    todo = left_to_do(arms, cases(), path)
    asyncio.run(run(todo, ask, path, pool=(), parallel=2, tick=seen.append))


def test_a_run_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    path, seen = tmp_path / "a" / "results.jsonl", list[Row]()
    run_all(path, [A, B], seen)
    assert len(seen) == 8
    text = path.read_text()
    path.write_text(text[: text.rindex('"marks"')])  # as a killed run leaves it
    run_all(path, [A, B], seen)
    assert len(seen) == 9
    assert sorted(row.key[1] for row in read_rows(path.parent)) == sorted(
        [f"c_{at}" for at in range(4)] * 2
    )
    assert left_to_do([A, B], cases(), path) == []


def test_a_row_that_cannot_be_written_is_told_plainly(tmp_path: Path) -> None:
    def full(_: Row) -> None:
        raise OSError(28, "No space left on device")

    todo = [(A, one) for one in cases()]
    with pytest.raises(OSError, match="No space"):
        asyncio.run(run(todo, ask, tmp_path / "results.jsonl", pool=(), parallel=3, tick=full))


def test_no_arm_is_always_first_and_every_category_comes_soon(tmp_path: Path) -> None:
    several = [
        case(category=category, id=f"{category}_{at}")
        for category, count in (("simple_python", 20), ("multiple", 10))
        for at in range(count)
    ]
    todo = left_to_do([A, B], several, tmp_path / "results.jsonl")
    assert todo == left_to_do([A, B], several, tmp_path / "results.jsonl")
    assert [one.id for _, one in todo[::2]] == [one.id for _, one in todo[1::2]]
    assert {arm for arm, _ in todo[::2]} == {A, B}
    assert {one.category for _, one in todo[:6]} == {"simple_python", "multiple"}


def test_errors_are_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(write_row(judge(A, cases()[0], Answer(error="status 500"))) + "\n")
    assert len(left_to_do([A], cases(), path)) == 4


def test_a_row_is_read_as_it_was_written() -> None:
    for answer in (RIGHT, WRONG, Answer(error="no")):
        row = judge(A, cases()[0], answer)
        assert read_row(write_row(row)) == row


@pytest.mark.parametrize("text", ["{}\n", "no\n", "[]\n"])
def test_what_is_no_row(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(text)
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
