"""Following JSON text byte by byte, and finding again where in it a part of its value stands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

OPEN, CLOSE = b"{[", b"}]"

MAX_DIGITS = 24  # in a row: more than any 64-bit integer needs
MAX_EXPONENT_DIGITS = 2  # with the others still a double

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_SCALAR = re.compile(r"[^\s,\]}]+")
_SPACE = re.compile(r"[\s,:]*")


class ValueTracker:
    """Tracks one JSON object or array from its first byte. The text is taken to be well-formed.

    `digits_left` is how many digits may follow in the number at hand, or begin one.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False
        self.in_string = False
        self.digits_left = MAX_DIGITS

    def feed(self, data: bytes) -> int | None:
        """Read on; the number of bytes up to the end of the value, None if it goes on."""
        for position, byte in enumerate(data):
            if self.in_string:
                self._inside_string(byte)
                continue
            self._count_digits(byte)
            if byte == 0x22:
                self.in_string = True
            elif byte in OPEN:
                self._depth += 1
            elif byte in CLOSE:
                self._depth -= 1
                if self._depth == 0:
                    return position + 1
        return None

    def _count_digits(self, byte: int) -> None:
        if 0x30 <= byte <= 0x39:
            self.digits_left -= 1
        elif byte in b"eE":  # also of true and false, where no digit comes
            self.digits_left = MAX_EXPONENT_DIGITS
        elif byte not in b"+-":
            self.digits_left = MAX_DIGITS

    def _inside_string(self, byte: int) -> None:
        if self._escaped:
            self._escaped = False
        elif byte == 0x5C:
            self._escaped = True
        elif byte == 0x22:
            self.in_string = False


@dataclass
class Layout:
    """Where things stand in a well-formed JSON text, in characters.

    `spans` has by path the begin and end of each value; `doubled` those of names that come a second
    time in their object.
    """

    text: str
    spans: dict[tuple[str | int, ...], tuple[int, int]] = field(default_factory=dict)
    doubled: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> Layout:
        """Raises RecursionError for a text that is nested too deeply."""
        layout = cls(text)
        layout._value(layout._skip(0), ())
        return layout

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def _value(self, at: int, path: tuple[str | int, ...]) -> int:
        char = self.text[at]
        if char == "{":
            end = self._object(at + 1, path)
        elif char == "[":
            end = self._array(at + 1, path)
        else:
            found = (_STRING if char == '"' else _SCALAR).match(self.text, at)
            end = found.end() if found else at + 1
        self.spans[path] = (at, end)
        return end

    def _object(self, at: int, path: tuple[str | int, ...]) -> int:
        names: set[str] = set()
        while self.text[at := self._skip(at)] != "}":
            found = _STRING.match(self.text, at)
            assert found is not None  # the text is well-formed
            name, at = json.loads(found[0]), found.end()
            if name in names:
                self.doubled.append(found.span())
            names.add(name)
            at = self._value(self._skip(at), (*path, name))
        return at + 1

    def _array(self, at: int, path: tuple[str | int, ...]) -> int:
        index = 0
        while self.text[at := self._skip(at)] != "]":
            at = self._value(at, (*path, index))
            index += 1
        return at + 1
