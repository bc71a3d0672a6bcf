"""Which log-probabilities are told before which event."""

from __future__ import annotations

from server.engine.logprobs import Logprob, Score
from server.events import CallBegins, Event, Finish, Logprobs, Reasoning, Text, Usage
from server.scoring import ScoreQueue
from tests.driving import merged_vocabulary

VOCABULARY = merged_vocabulary()
END = Finish("stop", Usage(1, 1))


def queue_of(text: str | bytes) -> ScoreQueue:
    queue = ScoreQueue(VOCABULARY)
    data = text if isinstance(text, bytes) else text.encode()
    for token in VOCABULARY.encode(data):
        queue.add([Score(Logprob(token, -1.0), (Logprob(token, -1.0),))])
    return queue


def told(queue: ScoreQueue, event: Event, *, stopped: bool = False) -> list[bytes]:
    found: list[bytes] = []
    for one in queue.before(event, stopped=stopped):
        assert isinstance(one, Logprobs)
        found += [token.chosen.piece for token in one.tokens]
    return found


def test_tokens_are_told_with_the_text_they_begin_in() -> None:
    queue = queue_of('x": y')  # `": ` is one token
    assert told(queue, Text("x")) == [b"x"]
    assert told(queue, Text('"')) == [b'": ']
    assert told(queue, Text(": ")) == []
    assert told(queue, Text("y")) == [b"y"]
    assert told(queue, END) == []


def test_what_a_stop_text_cuts_off_is_not_told() -> None:
    queue = queue_of('ab": y')
    assert told(queue, Text('ab"')) == [b"ab", b'": ']  # the stop text was `: `
    assert told(queue, END, stopped=True) == []


def test_what_is_held_at_the_end_is_told_then() -> None:
    queue = queue_of("a ")
    assert told(queue, Text("a")) == [b"a"]
    assert told(queue, END) == [b" "]


def test_a_split_character_is_told_when_it_is_shown() -> None:
    queue = queue_of("天x")
    first, second, third = (bytes([byte]) for byte in "天".encode())
    assert told(queue, Text("天")) == [first, second, third]
    assert told(queue, Text("x")) == [b"x"]


def test_bytes_that_are_no_text_count_as_they_are_shown() -> None:
    queue = queue_of(b"\xff\xe5xy")
    assert told(queue, Text("\ufffd")) == [b"\xff"]
    assert told(queue, Text("\ufffdx")) == [b"\xe5", b"x"]
    assert told(queue, Text("y")) == [b"y"]


def test_a_torn_character_at_the_end_is_told_with_the_end() -> None:
    queue = queue_of("a天".encode()[:3])
    assert told(queue, Text("a")) == [b"a"]
    assert told(queue, END) == [b"\xe5", b"\xa4"]


def test_from_a_call_on_everything_is_told_at_once() -> None:
    queue = queue_of("a <")
    assert told(queue, Text("a")) == [b"a"]
    assert told(queue, CallBegins(0, "abcdefghi", "look")) == [b" ", b"<"]
    queue.add([Score(Logprob(ord("z"), -1.0))])
    assert told(queue, END, stopped=True) == [b"z"]


def test_reasoning_is_not_counted_as_text() -> None:
    queue = queue_of("ab")
    assert told(queue, Reasoning("")) == [b"ab"]


def test_where_there_may_be_thinking_everything_is_told_at_once() -> None:
    queue = ScoreQueue(VOCABULARY, thinks=True)
    queue.add([Score(Logprob(ord(one), -1.0)) for one in "<think></think>a"])
    assert b"".join(told(queue, Text("a"))) == b"<think></think>a"


def test_nothing_is_told_where_nothing_was_asked_for() -> None:
    assert ScoreQueue(VOCABULARY).before(Text("a"), stopped=False) == []
