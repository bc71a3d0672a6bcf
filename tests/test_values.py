from __future__ import annotations

import pytest

from prompts.formats import HERMES
from server.errors import ConstraintFailed
from server.json_text import MAX_DIGITS
from server.output import OutputParser
from server.schema.checker import Uncheckable
from server.schema.prepare import prepare
from server.surface import surfaces
from server.values import Check, Values, find_fault

SCHEMA = {
    "type": "object",
    "properties": {"ä": {"type": "string"}, "n": {"type": "array", "items": {"maximum": 5}}},
    "additionalProperties": {},
}
CHECKER = prepare(SCHEMA, arguments=True).checker


def parser() -> OutputParser:
    return OutputParser(
        surfaces(HERMES), names=("f",), new_id=lambda: "", token_markers=("<tool_call>",)
    )


def values(*, needed: bool = True, answer: bool = False) -> Values:
    checks = {"f": Check(CHECKER, needed)}
    return Values(parser, {"": Check(CHECKER, needed)} if answer else checks)


def call(arguments: str) -> list[bytes]:
    """The tokens of a call: one per word."""
    text = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    return [word.encode() + b" " for word in text.split(" ")]


def follow(following: Values, tokens: list[bytes]) -> None:
    for length, token in enumerate(tokens, 1):
        following.feed(token, length)


def test_a_value_that_holds_has_no_fault() -> None:
    following = values()
    follow(following, call('{"ä": "x", "n": [1, 5]}'))
    assert following.fault is None
    assert following.held(10) == 0


def test_a_fault_has_its_place_in_bytes() -> None:
    following = values()
    text = '{"ä": "ü", "n": [1, 7, 9]}'
    follow(following, call(text))
    assert following.fault is not None
    assert following.fault.text == text.encode()
    begin, end = following.fault.begin, following.fault.end
    assert following.fault.text[begin:end] == b"7"
    assert following.fault.why == "'maximum' at /n/1"


def test_names_that_come_twice_are_a_fault() -> None:
    fault = find_fault('{"x": 1, "y": {"z": 1, "z": 2}}', CHECKER)
    assert fault is not None
    assert (fault.text[fault.begin : fault.end], fault.begin) == (b'"z"', 23)
    assert find_fault('{"x": 1, "y": {"x": 1}}', CHECKER) is None


def test_what_is_open_may_be_taken_back_if_its_check_is_needed() -> None:
    tokens = call('{"ä": "x", "n": []}')
    for needed in (True, False):
        following = values(needed=needed)
        # The arguments begin in the fourth token.
        follow(following, tokens[:4])
        assert following.began == 3
        assert following.held(4) == (1 if needed else 0)
        assert following.held(6) == (3 if needed else 0)


def test_a_fault_that_was_told_fails_the_answer() -> None:
    following = values(needed=False)
    with pytest.raises(ConstraintFailed, match="what f says breaks 'maximum' at /n/0"):
        follow(following, call('{"n": [7]}'))


def test_a_call_that_repeats_another_is_held_as_long_as_it_does() -> None:
    following = values(needed=False)
    follow(following, call('{"ä": "x"}'))
    assert not following.repeated
    again = call('{"ä": "x"}')
    follow(following, again[:4])
    assert following.held(4) > 0
    follow(following, again[4:])
    assert following.repeated
    other = values(needed=False)
    follow(other, call('{"ä": "x"}'))
    follow(other, call('{"ä": "y", "n": []}')[:5])
    assert other.held(5) == 0


def test_an_answer_in_json_is_checked_too() -> None:
    following = values(answer=True)
    follow(following, [b'{"n": [', b"4, ", b"8"])
    assert following.fault is None
    assert following.held(3) == 3
    following.feed(b"]}", 4)
    assert following.fault is not None
    assert following.fault.why == "'maximum' at /n/1"


def test_digits_are_those_of_open_arguments() -> None:
    following = values()
    follow(following, call('{"n": [12')[:-1])
    assert following.digits_left == MAX_DIGITS
    following.feed(b"[12", 6)
    assert following.digits_left == MAX_DIGITS - 2


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"x": 1e999}', "double"), ('{"x": ' + "[" * 2000 + "]" * 2000 + "}", "deep")],
)
def test_what_no_client_could_read_is_uncheckable(text: str, why: str) -> None:
    with pytest.raises(Uncheckable, match=why):
        find_fault(text, CHECKER)
