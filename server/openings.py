"""Finding in free text, byte by byte, where a call opens; holding back what may yet become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

# Openings count at the beginning of a line only: text may mention them elsewhere.
LINE_START = rb"(?<![^\n])[ \t]{0,8}"
# Where nothing but white space was before, however much: what stands before this text, such as
# thinking, may have taken some of it.
START = rb"\s*"


@dataclass(frozen=True)
class Found:
    """An opening: the text before it, its own text with the matched groups, and what follows."""

    before: bytes
    match: regex.Match[bytes]
    rest: bytes


class OpeningFinder:
    """Looks for the first of some patterns in a text that arrives in pieces.

    `anywhere` patterns count at any place, `first` ones where nothing but white space was before,
    the others at the beginning of a line.
    """

    def __init__(
        self,
        patterns: Sequence[bytes],
        anywhere: Sequence[bytes] = (),
        first: Sequence[bytes] = (),
    ) -> None:
        parts = [b"(?:%s)" % pattern for pattern in anywhere]
        if patterns:
            parts.append(LINE_START + b"(?:" + b"|".join(patterns) + b")")
        starts = b"|".join((*patterns, *first))
        self._start = regex.compile(START + b"(?:" + starts + b")") if starts else None
        self._pattern = regex.compile(b"|".join(parts)) if parts else None
        self._context = b""  # the last byte that was given away: is the next one on a new line?
        self._held = b""

    def peek(self, data: bytes) -> bool:
        """Whether an opening would be complete with `data`; nothing changes."""
        match = self._search(self._held + data)
        return match is not None and not match.partial

    def feed(self, data: bytes) -> bytes | Found:
        """Read on: the text that is surely text, or the opening that is now complete."""
        text = self._held + data
        match = self._search(text)
        if match is None:
            return self._give(text, len(text))
        before = len(self._context) if match.re is self._pattern else 0
        start = match.start() - before
        if match.partial:
            return self._give(text, start)
        self._held = b""
        return Found(text[:start], match, text[match.end() - before :])

    @property
    def held(self) -> bytes:
        """The text that may be the beginning of an opening."""
        return self._held

    def _search(self, text: bytes) -> regex.Match[bytes] | None:
        if self._start and (match := self._start.match(text, partial=True)):
            return match
        if self._pattern is None:
            return None
        return self._pattern.search(self._context + text, pos=len(self._context), partial=True)

    def _give(self, text: bytes, length: int) -> bytes:
        given, self._held = text[:length], text[length:]
        if given:
            self._context = given[-1:]
        if given.strip():
            self._start = None
        return given
