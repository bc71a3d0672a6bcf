from __future__ import annotations

import json

import pytest

from server.bench.bodies import Answer, Call
from server.bench.check import fault
from server.bench.workloads import Series
from tests.bench.helpers import arguments_for, level

[DIALOGUE, *_] = Series(1, "abc").dialogues(level("warm5"), 0)
TOOL = DIALOGUE.tools[0]
GOOD = arguments_for(TOOL.parameters)
NAME = TOOL.name


def called(name: str, arguments: str) -> Answer:
    return Answer(calls=(Call("abcdefgh1", name, arguments),))


@pytest.mark.parametrize(
    "answer",
    [
        called(NAME, json.dumps(GOOD)),
        Answer(json.dumps({"name": NAME, "arguments": GOOD})),
        Answer(f" {json.dumps({'arguments': GOOD, 'name': NAME})}\n"),
    ],
)
def test_right_calls(answer: Answer) -> None:
    in_text = not answer.calls
    assert fault(answer, DIALOGUE.tools, in_text=in_text) is None
    assert fault(answer, DIALOGUE.tools, in_text=not in_text) == "no call"


CALL = Call("abcdefgh1", NAME, json.dumps(GOOD))


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Answer(), "no call"),
        (Answer("I would call it."), "no call"),
        (Answer("[]"), "no call"),
        (Answer("3"), "no call"),
        (Answer(f'{{"name": "{NAME}"}}'), "no call"),
        (Answer(calls=(CALL,), cut=True), "cut at the token limit"),
        (Answer(calls=(CALL, CALL)), "2 calls"),
        (called("no_such_tool", "{}"), "a tool that was not offered"),
        (called(NAME, '{"city": '), "arguments that are no JSON"),
        (called(NAME, "{}"), "arguments against the schema"),
        (called(NAME, json.dumps({**GOOD, "more": 1})), "arguments against the schema"),
        (Answer(json.dumps({"name": NAME, "arguments": "x"})), "arguments against the schema"),
    ],
)
def test_wrong_calls(answer: Answer, what: str) -> None:
    assert fault(answer, DIALOGUE.tools, in_text=not answer.calls) == what


def test_plain_chat_may_be_cut_but_not_empty() -> None:
    assert fault(Answer("Once upon", cut=True), (), in_text=False) is None
    assert fault(Answer(" \n"), (), in_text=True) == "empty"
