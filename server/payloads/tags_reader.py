"""Reading arguments in tags."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import regex

from prompts.payloads import PLACEHOLDER, Tags, dumps
from server.json_text import MAX_DIGITS, ValueTracker
from server.payloads.members import KEY
from server.payloads.reading import Steps, plain_word

_TOO_LONG = regex.compile(f"[0-9]{{{MAX_DIGITS + 1}}}|[eE][+-]?[0-9]{{3}}")


@dataclass(frozen=True)
class Parameter:
    """What the value of a parameter may be: a `text`, something `other`, or either.

    Where it is either, `fits` tells whether a value that is no text would do.
    """

    text: bool
    other: bool
    fits: Callable[[Any], bool]


EITHER = Parameter(True, True, lambda value: True)


class TagsReader(Steps):
    """`parameters` are those of the tool by name; one that is not among them may be anything."""

    def __init__(self, tags: Tags, parameters: Mapping[str, Parameter]) -> None:
        super().__init__()
        before, _, end = tags.arg.partition("«value»")
        self._stop = end.rstrip().encode()
        self._after = end[len(end.rstrip()) :].encode()
        self._opening = _opening(before, parameters)
        self._parameters = parameters
        self._parameter = EITHER
        self._count = 0
        self._counted = 0  # bytes of a scalar in which digits were counted

    def _first(self) -> str | None:
        if not self._buffer:
            return None
        self._step = self._between
        return "{"

    def _between(self) -> str | None:
        match = self._opening.match(self._buffer, partial=True)
        if match is None:
            self._end()
            return "}"
        if match.partial:
            return None
        self._take(match.end())
        key = match["key"].decode()
        separator = ", " if self._count else ""
        self._count += 1
        return f"{separator}{dumps(key)}: " + self._enter(key, match.groupdict())

    def _enter(self, key: str, told: Mapping[str, bytes | None]) -> str:
        """Go on with the value; what is certain of it by its opening."""
        self._parameter = self._parameters.get(key, EITHER)
        text, other = self._parameter.text, self._parameter.other
        if told.get("isstr") or told.get("type"):
            text = told.get("isstr") == b"true" or told.get("type") == b"string"
            other = not text
        self._numbers, self._counted = ValueTracker(), 0
        self._decoder.reset()
        if text and other:
            self._step = self._either
            return ""
        self._step = self._text if text else self._other
        return '"' if text else ""

    def _text(self) -> str | None:
        return self._until(self._stop)

    def _after_text(self) -> str | None:
        return self._closing()

    def _other(self) -> str | None:
        if not self._buffer:
            return None
        self._step = self._nested if self._buffer[0] in b"{[" else self._scalar
        return ""

    def _nested(self) -> str | None:
        if not self._buffer:
            return None
        end = self._numbers.feed(self._buffer)
        if end is not None:
            self._step = self._value_end
        return self._decoder.decode(self._take(len(self._buffer) if end is None else end))

    def _value_end(self) -> str | None:
        if len(self._buffer) < len(self._stop):
            return None
        self._take(len(self._stop))
        self._step = self._closing
        return ""

    def _scalar(self) -> str | None:
        at = self._buffer.find(self._stop)
        if at < 0:
            self._numbers.feed(self._buffer[self._counted :])
            self._counted = len(self._buffer)
            return None
        text = self._take(at).decode("utf-8", "replace")
        self._step = self._value_end
        return plain_word(text)

    def _either(self) -> str | None:
        at = self._buffer.find(self._stop)
        if at < 0:
            return None
        text = self._take(at).decode("utf-8", "replace")
        self._step = self._value_end
        return self._decided(text)

    def _decided(self, text: str) -> str:
        """JSON that is no text, if it is that and may be; a text otherwise."""
        try:
            value = None if _TOO_LONG.search(text) else json.loads(plain_word(text))
        except (ValueError, RecursionError):
            return dumps(text)
        is_null = plain_word(text) == "null"
        if isinstance(value, str) or (value is None and not is_null):
            return dumps(text)
        return plain_word(text) if self._parameter.fits(value) else dumps(text)

    def _closing(self) -> str | None:
        if len(self._buffer) < len(self._after) and self._after.startswith(self._buffer):
            return None
        self._buffer = self._buffer.removeprefix(self._after)
        self._numbers = ValueTracker()
        self._step = self._between
        return ""


def _opening(before: str, parameters: Mapping[str, Parameter]) -> regex.Pattern[bytes]:
    """A pattern for what stands before a value."""
    names = sorted(parameters, key=len, reverse=True)
    groups = {
        "key": "|".join([*map(regex.escape, names), KEY]),
        "isstr": "true|false",
        "type": "[a-z]+",
    }
    text = ""
    for position, part in enumerate(PLACEHOLDER.split(before)):
        text += f"(?P<{part}>{groups[part]})" if position % 2 else regex.escape(part)
    return regex.compile(text.encode())
