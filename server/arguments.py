"""How a client sees the arguments of a call: as the model wrote them, unless it asks otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Protocol

_BEGIN = re.compile(r'\{\s*"input"\s*:\s*"')
# Characters of a JSON string that are complete: half of a surrogate pair is not.
_CHARACTERS = re.compile(
    r"(?:[^\"\\]"
    r"|\\[^u]"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*"
)


class View(Protocol):
    """The arguments of one call, as they come. `custom`: what is seen is no JSON, but an input."""

    custom: bool

    def feed(self, text: str, *, last: bool) -> str:
        """What is to be shown now that `text` was written; `last`: the arguments are complete."""
        ...

    def cut(self) -> str:
        """What is still to be shown of arguments that will never be complete."""
        ...


class AsWritten:
    custom = False

    def feed(self, text: str, *, last: bool) -> str:
        return text

    def cut(self) -> str:
        return ""


class Input:
    """The text in the one argument of a custom tool."""

    custom = True

    def __init__(self) -> None:
        self._began = False
        self._held = ""

    def feed(self, text: str, *, last: bool) -> str:
        self._held += text
        if not self._began:
            found = _BEGIN.match(self._held)
            if found is None:
                return ""
            self._began = True
            self._held = self._held[found.end() :]
        found = _CHARACTERS.match(self._held)
        end = found.end() if found else 0
        shown, self._held = self._held[:end], self._held[end:]
        return str(json.loads(f'"{shown}"', strict=False))

    def cut(self) -> str:
        return ""


class Completed:
    """Arguments with what `complete` adds to the finished text.

    What is `appended` comes before the last brace only, so that all before it can be shown at once.
    """

    custom = False

    def __init__(self, complete: Callable[[str], str], *, appended: bool) -> None:
        self._complete = complete
        self._appended = appended
        self._text = ""
        self._shown = 0

    def feed(self, text: str, *, last: bool) -> str:
        self._text += text
        if last:
            self._text = self._complete(self._text)
        elif not self._appended:
            return ""
        return self.cut()

    def cut(self) -> str:
        shown, self._shown = self._text[self._shown :], len(self._text)
        return shown
