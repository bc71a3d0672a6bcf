"""What answers hold must neither break the report nor change how it reads."""

from __future__ import annotations

import json

import pytest

from prompts.bench.report import page
from prompts.bench.results import Answer, Arm, Row, judge
from prompts.bench.summary import summarise
from tests.prompts.bench.samples import case

ARM = Arm("m", "t")
TRUTH = {"get_weather": {"city": ["Porto"], "days": [3]}}


def row(arguments: str, text: str = "") -> Row:
    calls = (("get_weather", arguments),) if arguments else ()
    return judge(ARM, case(TRUTH), Answer(calls, text=text))


@pytest.mark.parametrize("sign", ["\ud800", "\u202e", "\x00", "\x1b"])
def test_what_cannot_be_seen_is_shown_as_an_escape(sign: str) -> None:
    written = page([row(json.dumps({"city": sign}, ensure_ascii=False), text=sign)], sign)
    assert written.encode("utf-8")
    assert sign not in written
    assert f"\\u{ord(sign):04x}" in written


@pytest.mark.parametrize("arguments", ["[" * 5000, '{"a":' * 5000, "[" * 5000 + "]" * 5000])
def test_however_deep_an_argument_is_there_is_a_report(arguments: str) -> None:
    assert "get_weather" in page([row(arguments)], "deep")


def test_shares_of_calls_leave_out_answers_without_one() -> None:
    quiet = judge(ARM, case(category="irrelevance", id="quiet"), Answer(text="No."))
    silent = judge(ARM, case(TRUTH, id="silent"), Answer(text="No."))
    [found] = summarise([row('{"city": 7}'), quiet, silent])
    assert (found.right.count, found.names.count) == (3, 3)
    assert (found.valid_json.right, found.valid_json.count) == (1, 1)
    assert (found.valid_schema.right, found.valid_schema.count) == (0, 1)
    assert (found.arguments.right, found.arguments.count) == (0, 1)
