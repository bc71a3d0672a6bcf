from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.conversation import PastCall
from prompts.formats import GENERIC, HERMES, ROWS, ToolFormat, render_calls, row_named
from prompts.payloads import Json
from server.events import CallArguments, CallBegins, CallEnds, Event, Text
from server.output import OutputParser
from server.surface import surfaces
from tests.driving import Folded, fold

NAMES = ("get_weather", "a")
TOKENS = ("<tool_call>", "</tool_call>")
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'


def parser(
    row: ToolFormat = HERMES,
    *,
    stops: Sequence[str] = (),
    tokens: Collection[str] = TOKENS,
    calls_only: bool = False,
) -> OutputParser:
    return OutputParser(
        surfaces(row),
        names=NAMES,
        new_id=lambda: "abcdefghi",
        stops=stops,
        token_markers=tokens,
        calls_only=calls_only,
    )


def events_of(parser: OutputParser, pieces: Sequence[bytes]) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    return [*events, *parser.end()]


def read(text: str, row: ToolFormat = HERMES, **options: Sequence[str]) -> Folded:
    return fold(events_of(parser(row, **options), [text.encode()]))  # type: ignore[arg-type]


def test_a_call_begins_with_its_first_arguments_and_ends_with_the_last() -> None:
    looking = parser()
    head, tail = CALL.split('{"city"')
    assert looking.feed(head.encode()) == []
    assert looking.feed(b'{"city') == [
        CallBegins(0, "abcdefghi", "get_weather"),
        CallArguments(0, '{"city'),
    ]
    assert looking.feed(b'": "Z') == [CallArguments(0, '": "Z')]
    assert looking.feed(tail[4:].encode()) == [CallArguments(0, 'ürich"}'), CallEnds(0)]
    assert looking.end() == []
    assert looking.finish_reason("stop") == "tool_calls"
    assert looking.finish_reason("length") == "length"


def test_text_is_told_as_it_comes_but_for_white_space_at_its_end() -> None:
    looking = parser()
    assert looking.feed(b"Hello") == [Text("Hello")]
    assert looking.feed(b", \n") == [Text(",")]
    assert looking.feed(b"you ") == [Text(" \nyou")]
    assert looking.end() == [Text(" ")]
    assert looking.finish_reason("stop") == "stop"


def test_white_space_before_a_call_is_no_text() -> None:
    assert read("Let me see.\n\n" + CALL) == Folded(
        "Let me see.", (("get_weather", '{"city": "Zürich"}'),), 1
    )
    assert read("\n " + CALL).text == ""


def test_what_stands_between_and_after_calls_is_no_text() -> None:
    folded = read(f"{CALL}\n{CALL}\n")
    assert (folded.text, folded.done) == ("", 2)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>',
        'I write {"name": "get_weather", "arguments": {}} in a line.',
        '```json\n{"name": "get_weather_now", "arguments": {}}\n```',
        '{"name": "get_weather"}',
    ],
)
def test_what_is_no_call_of_an_offered_tool_is_text(text: str) -> None:
    assert read(text) == Folded(text, (), 0)


def test_only_calls_where_there_can_be_no_text() -> None:
    looking = parser(calls_only=True)
    folded = fold(events_of(looking, [b"So: " + CALL.encode() + b" done"]))
    assert (folded.text, folded.done) == ("", 1)


# Stops


@pytest.mark.parametrize(
    ("stops", "text", "kept"),
    [
        (["END"], "one END two", "one "),
        (["END"], "one EN two", "one EN two"),
        (["b", "abc"], "xabc", "xa"),
        (["abc", "ab"], "xabc", "x"),
        (["aab"], "xaaab", "xa"),
        (["\n\n"], "one\n\ntwo", "one"),
        (["ü"], "grün", "gr"),
        (["", "END"], "x", "x"),
    ],
)
def test_a_stop_ends_the_text_however_it_is_cut(stops: list[str], text: str, kept: str) -> None:
    data = text.encode()
    for pieces in ([data], [bytes([byte]) for byte in data], [data[:3], data[3:]]):
        looking = parser(stops=stops)
        assert fold(events_of(looking, pieces)).text == kept
        assert looking.stopped == (kept != text)
        if looking.stopped:
            assert looking.feed(b"more") == []


def test_a_stop_within_a_call_does_not_count() -> None:
    folded = read(CALL, stops=["Zür", "name", "tool_call"])
    assert folded == Folded("", (("get_weather", '{"city": "Zürich"}'),), 1)


def test_a_stop_before_a_call_keeps_it_out() -> None:
    assert read(f"one END {CALL}", stops=["END"]) == Folded("one ", (), 0)


# However it comes


PIECES = st.sampled_from(
    [
        *("text ", "\n", "ü", "🐲", "END", "EN", "{", '"', "<tool", "_call>", "```json\n", "}"),
        *(CALL, '{"name": "get_weather", "arguments": {"x": [1, "}"]}}', '{"name": "a", "argu'),
        *('<tool_call>\n{"name": "a", "arguments": {"b', "\n</tool_call>", "<tool_call>\n"),
    ]
)
ROWS_TO_TRY = [HERMES, GENERIC, row_named("llama3_json"), row_named("mistral_v3")]


@settings(deadline=None)
@given(
    st.sampled_from(ROWS_TO_TRY),
    st.lists(PIECES, max_size=8),
    st.lists(st.integers(1, 7), min_size=1),
    st.booleans(),
)
def test_pieces_make_no_difference(
    row: ToolFormat, texts: list[str], sizes: list[int], tokens: bool
) -> None:
    data = "".join(texts).encode()
    options = {"stops": ["END", "N"], "tokens": TOKENS if tokens else ()}
    whole = fold(events_of(parser(row, **options), [data]))  # type: ignore[arg-type]
    by_byte = fold(events_of(parser(row, **options), [bytes([b]) for b in data]))  # type: ignore[arg-type]
    pieces, rest, turn = [], data, 0
    while rest:
        size = sizes[turn % len(sizes)]
        pieces.append(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert whole == by_byte == fold(events_of(parser(row, **options), pieces))  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(PIECES, max_size=6), st.lists(st.integers(1, 7), min_size=1))
def test_no_character_is_torn(texts: list[str], sizes: list[int]) -> None:
    looking, rest, turn = parser(), "".join(texts).encode(), 0
    while rest:
        size = sizes[turn % len(sizes)]
        for event in looking.feed(rest[:size]):
            if isinstance(event, Text | CallArguments):
                assert "\ufffd" not in event.text
                assert event.text
        rest, turn = rest[size:], turn + 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_cut_at_any_byte_shows_all_that_is_certain(row: ToolFormat) -> None:
    """A call is shown as far as its arguments got; nothing of what opens it is ever text."""
    arguments = '{"city": "Zürich"}'
    ids = "functions.get_weather:0" if row.ids == "kimi" else "abcdefghi"
    call = PastCall(ids, "get_weather", json.loads(arguments))
    data = f"So:\n{render_calls(row, [call])}".encode()
    shown, ended = "", False
    for length in range(len(data) + 1):
        looking = parser(row, tokens=_markers(data.decode()))
        folded = fold(events_of(looking, [data[:length]]))
        if not folded.calls:
            # What may be the beginning of a marker is text only as long as it is not one.
            assert folded.text.startswith("So:"[:length])
        else:
            ((name, text),) = folded.calls
            assert (name, folded.text) == ("get_weather", "So:")
            assert text.startswith(shown)
            shown = text
        assert folded.done == (shown == arguments) >= ended
        ended = folded.done == 1
        assert looking.finish_reason("length") == "length"
        if isinstance(row.args, Json) and folded.calls:
            begin = data.index(b'{"city"')
            assert (
                shown.encode()
                == data[begin:length].decode("utf-8", "ignore").encode()[: len(arguments.encode())]
            )
    assert ended


def _markers(text: str) -> list[str]:
    """What would be tokens of their own."""
    return [piece for piece in ("<tool_call>", "[TOOL_CALLS]", "<|tool_call|>") if piece in text]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<tool_call>", ""),
        ('<tool_call>\n{"name": "get_wea', ""),
        ("text\n\n<tool_call>\n{", "text"),
        # Without a marker it may have been text, and is not withheld.
        ('```json\n{"name": "get_wea', '```json\n{"name": "get_wea'),
        ("``", "``"),
    ],
)
def test_an_opening_that_is_cut_is_shown_unless_it_is_a_marker(text: str, shown: str) -> None:
    for pieces in ([text.encode()], [bytes([byte]) for byte in text.encode()]):
        assert fold(events_of(parser(), pieces)).text == shown
