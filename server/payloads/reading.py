"""Readers of arguments: from the bytes of a notation to the text of a JSON object, as it comes."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from typing import Protocol

from server.json_text import ValueTracker


class Reader(Protocol):
    """Reads the arguments of one call. `rest` is what follows them, None before their end.

    `digits_left` is how many digits may follow in the number at hand.
    """

    rest: bytes | None

    @property
    def digits_left(self) -> int: ...

    def feed(self, data: bytes) -> str:
        """The JSON text that is certain with `data`."""
        ...


class JsonReader:
    """Arguments that are a JSON object already."""

    def __init__(self) -> None:
        self._tracker = ValueTracker()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest: bytes | None = None

    @property
    def digits_left(self) -> int:
        return self._tracker.digits_left

    def feed(self, data: bytes) -> str:
        end = self._tracker.feed(data)
        if end is None:
            return self._decoder.decode(data)
        self.rest = data[end:]
        return self._decoder.decode(data[:end])


class Steps:
    """A reader that goes from step to step.

    A step reads from the buffer and gives what it is sure of; None if it needs more bytes.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._begun = False
        self._step: Callable[[], str | None] = self._first
        self._numbers = ValueTracker()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest: bytes | None = None

    @property
    def digits_left(self) -> int:
        return self._numbers.digits_left

    def feed(self, data: bytes) -> str:
        self._buffer += data
        shown = []
        while self.rest is None and (piece := self._step()) is not None:
            shown.append(piece)
        return "".join(shown)

    def _first(self) -> str | None:
        raise NotImplementedError

    def _end(self) -> None:
        self.rest, self._buffer = self._buffer, b""

    def _take(self, count: int) -> bytes:
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def _inner(self, data: bytes, *, last: bool) -> str:
        """Raw text as it stands within a JSON string."""
        return within(self._decoder.decode(data, last))

    def _until(self, stop: bytes) -> str | None:
        """Raw text up to `stop`, with the quote that ends it; `_ended` says whether it came."""
        at = self._buffer.find(stop)
        if at >= 0:
            text = self._inner(self._take(at), last=True) + '"'
            self._take(len(stop))
            self._step = self._after_text
            return text
        sure = len(self._buffer) - overlap(self._buffer, stop)
        return self._inner(self._take(sure), last=False) if sure else None

    def _after_text(self) -> str | None:
        raise NotImplementedError


def within(text: str) -> str:
    """A text as it stands within a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def overlap(data: bytes, stop: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of `stop`."""
    for size in range(min(len(data), len(stop) - 1), 0, -1):
        if data.endswith(stop[:size]):
            return size
    return 0


_WORDS = {"True": "true", "False": "false", "None": "null"}


def plain_word(text: str) -> str:
    """A scalar in JSON's words, which some families write in Python's."""
    return _WORDS.get(text, text)
