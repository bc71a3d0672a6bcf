from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from server.commands.endpoint import Done, Piece
from server.commands.screen import Screen, summary_of
from server.events import CallArguments, CallBegins, Reasoning, Text, Usage
from tests.commands.helpers import CALL, text


class Shown:
    """A screen on a terminal or on pipes, and what it wrote."""

    def __init__(self, *, terminal: bool) -> None:
        self._out, self._err = io.StringIO(), io.StringIO()
        self.screen = Screen(
            *(
                Console(file=file, force_terminal=terminal, width=20)
                for file in (self._out, self._err)
            )
        )

    def show(self, *pieces: Piece) -> None:
        for piece in pieces:
            self.screen.show(piece)

    @property
    def out(self) -> str:
        return self._out.getvalue()

    @property
    def plain(self) -> str:
        """`out` without its styles."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.out)

    @property
    def err(self) -> str:
        return self._err.getvalue()


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def shown(request: pytest.FixtureRequest) -> Shown:
    return Shown(terminal=request.param)


def test_a_call_is_a_line_of_its_own(shown: Shown) -> None:
    shown.show(Text("I look it up."), *CALL)
    assert shown.plain == 'I look it up.\n→ get_weather({"city": "Porto"})\n'


def test_text_comes_at_once_and_is_never_wrapped_or_read_as_markup(shown: Shown) -> None:
    shown.show(Text("[bold]one two three four five six[/bold] :smile:"))
    assert shown.plain == "[bold]one two three four five six[/bold] :smile:"
    shown.show(Text("\n\nlast\n"), Done("stop"))
    assert shown.plain.endswith(":smile:\n\nlast\n")


def test_a_pipe_gets_exactly_the_text() -> None:
    shown = Shown(terminal=False)
    shown.show(*text("\ttab\x1b[31m\r", " ünï ", "end"))
    assert shown.out == "\ttab\x1b[31m\r ünï end\n"


def test_a_model_cannot_steer_the_terminal() -> None:
    shown = Shown(terminal=True)
    shown.show(*text("\x1b]0;title\x07\x9b31m\x7f"))
    assert shown.out == "\N{REPLACEMENT CHARACTER}]0;title" + "\N{REPLACEMENT CHARACTER}" * 2 + (
        "31m\N{REPLACEMENT CHARACTER}\n"
    )


def test_reasoning_is_for_people_only() -> None:
    pieces = (Reasoning("Hm"), Reasoning("."), *text("Hi"))
    pipe, terminal = Shown(terminal=False), Shown(terminal=True)
    pipe.show(*pieces)
    terminal.show(*pieces)
    assert pipe.out == "Hi\n"
    assert terminal.plain == "Hm.\nHi\n"
    assert terminal.out != terminal.plain


def test_a_call_that_was_cut_ends_its_line(shown: Shown) -> None:
    shown.show(CallBegins(0, "id", "f"), CallArguments(0, '{"a'), Done("length"))
    assert shown.plain == '→ f({"a\n'


def test_the_summary_is_for_people_but_a_cut_is_told_always(shown: Shown) -> None:
    shown.screen.summary(Done("stop", Usage(3, 4)), 1.0)
    assert ("3 + 4 tokens" in shown.err) == shown.err.startswith("\x1b[2m")
    before = shown.err
    shown.screen.summary(Done("length", Usage(3, 4)), 1.0)
    assert "the answer was cut at the token limit" in shown.err.removeprefix(before)
    assert shown.out == ""


def test_a_line_to_the_user_does_not_stand_behind_an_answer(shown: Shown) -> None:
    shown.show(Text("half"))
    shown.screen.say("[cancelled]")
    assert shown.plain == "half\n"
    assert "[cancelled]" in shown.err


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (Done("stop", Usage(9, 5, cached_tokens=2), 3), "9 + 5 tokens, 1.3 s, 2 cached, 3 forced"),
        (Done("stop", Usage(9, 5)), "9 + 5 tokens, 1.3 s, 0 cached"),
        (Done("stop"), "1.3 s"),
    ],
)
def test_what_is_not_known_is_left_out(done: Done, line: str) -> None:
    assert summary_of(done, 1.26) == line
