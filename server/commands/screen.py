"""How `callwright chat` shows an answer: text and calls on stdout, everything else on stderr.

Styled on a terminal; elsewhere exactly the text, and a line for each call.
"""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text as Styled

from server.commands.endpoint import Done, Piece
from server.events import CallArguments, CallBegins, CallEnds, Reasoning, Text

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Screen:
    """`out` is stdout, `err` is stderr."""

    def __init__(self, out: Console, err: Console) -> None:
        self._out = out
        self._err = err
        self._in_line = False
        self._in_reasoning = False
        self._unopened: CallBegins | None = None

    def show(self, piece: Piece) -> None:
        """Show a piece as soon as it comes. Reasoning is for people only."""
        if isinstance(piece, Reasoning):
            self._in_reasoning = self._out.is_terminal
            if self._in_reasoning:
                self._write(piece.text, "dim")
            return
        if self._in_reasoning:
            self.end_line()
            self._in_reasoning = False
        match piece:
            case Text(text):
                self._write(text)
            case CallBegins():
                self._unopened = piece
            case CallArguments(_, text):
                self._open_call()
                self._write(text)
            case CallEnds():
                self._write(")", "bold")
                self.end_line()
            case Done():
                self.end_line()

    def _open_call(self) -> None:
        if self._unopened is not None:
            self.end_line()
            self._write(f"→ {self._unopened.name}(", "bold")
            self._unopened = None

    def end_line(self) -> None:
        """Go to a new line, unless the last one is empty."""
        if self._in_line:
            self._write("\n")

    def summary(self, done: Done, seconds: float) -> None:
        """The dim line after an answer. That it was cut is said also where nobody watches."""
        if self._err.is_terminal:
            self._tell(summary_of(done, seconds), "dim")
        if done.reason == "length":
            self.say("the answer was cut at the token limit")

    def say(self, text: str) -> None:
        """A line to the user that is no part of an answer."""
        self._tell(text, "yellow")

    def _tell(self, text: str, style: str) -> None:
        self.end_line()
        self._err.print(Styled(text, style), soft_wrap=True, highlight=False)

    def _write(self, text: str, style: str = "") -> None:
        if not text:
            return
        if self._out.is_terminal:
            # What a model writes must not steer the terminal.
            text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
            self._out.print(Styled(text, style), end="", soft_wrap=True)
        else:
            self._out.file.write(text)
        self._out.file.flush()
        self._in_line = not text.endswith("\n")


def summary_of(done: Done, seconds: float) -> str:
    """Tokens of prompt and answer, seconds, cached, forced; without what is not known."""
    parts = [f"{seconds:.1f} s"]
    if done.usage is not None:
        parts.insert(0, f"{done.usage.prompt_tokens} + {done.usage.completion_tokens} tokens")
        parts.append(f"{done.usage.cached_tokens} cached")
    if done.forced_tokens is not None:
        parts.append(f"{done.forced_tokens} forced")
    return ", ".join(parts)
