"""Reading Gemma's and Python's notations. No schema is needed: texts are always between quotes."""

from __future__ import annotations

from prompts.payloads import dumps
from server.json_text import ValueTracker
from server.payloads.reading import Steps, plain_word, within

_SCALAR_ENDS = b",)]}"


class _ValuesReader(Steps):
    """What both have in common. `_open` are the objects and arrays that are open, as brackets."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[bytes] = []
        self._counted = 0

    def _begin_value(self) -> None:
        self._step = self._value
        self._numbers, self._counted = ValueTracker(), 0
        self._decoder.reset()

    def _value(self) -> str | None:
        raise NotImplementedError

    def _key(self) -> str | None:
        raise NotImplementedError

    def _enter(self) -> str:
        """An object or array opens."""
        bracket = self._take(1)
        self._open.append(bracket)
        self._step = self._first_inside
        return bracket.decode()

    def _first_inside(self) -> str | None:
        if not self._buffer:
            return None
        if self._buffer[:1] in (b"}", b"]"):
            return self._leave()
        self._inside()
        return ""

    def _inside(self) -> None:
        if self._open[-1] == b"{":
            self._step = self._key
        else:
            self._begin_value()

    def _leave(self) -> str:
        self._open.pop()
        self._step = self._after_text
        return self._take(1).decode()

    def _after_text(self) -> str | None:
        """After a value."""
        self._numbers = ValueTracker()
        if not self._open:
            self._end()
            return ""
        if not self._buffer:
            return None
        if self._buffer[:1] != b",":
            return self._leave()
        self._take(1)
        self._inside()
        return ", "

    def _scalar(self) -> str | None:
        ends = [at for byte in _SCALAR_ENDS if (at := self._buffer.find(byte)) >= 0]
        if not ends:
            self._numbers.feed(self._buffer[self._counted :])
            self._counted = len(self._buffer)
            return None
        self._step = self._after_text
        return plain_word(self._take(min(ends)).decode("utf-8", "replace"))


class QuotedReader(_ValuesReader):
    """Reads Gemma's notation."""

    def __init__(self, quote: str) -> None:
        super().__init__()
        self._quote = quote.encode()

    def _first(self) -> str | None:
        return self._enter() if self._buffer else None

    def _key(self) -> str | None:
        at = self._buffer.find(b":")
        if at < 0:
            return None
        key = self._take(at).decode("utf-8", "replace")
        self._take(1)
        self._begin_value()
        return f"{dumps(key)}: "

    def _value(self) -> str | None:
        if self._buffer.startswith(self._quote):
            self._take(len(self._quote))
            self._step = self._text
            return '"'
        if self._quote.startswith(self._buffer):
            return None
        if self._buffer[:1] in (b"{", b"["):
            return self._enter()
        self._step = self._scalar
        return ""

    def _text(self) -> str | None:
        return self._until(self._quote)


class KeywordsReader(_ValuesReader):
    """Reads keyword arguments; the parenthesis after them is left."""

    def __init__(self) -> None:
        super().__init__()
        self._quote = b""
        self._after = self._after_text

    def _first(self) -> str | None:
        if not self._buffer:
            return None
        self._open.append(b"(")
        if self._buffer[:1] == b")":
            self._end()
            return "{}"
        self._inside()
        return "{"

    def _inside(self) -> None:
        if self._open[-1] == b"(":
            self._step = self._keyword
        else:
            super()._inside()

    def _leave(self) -> str:
        if self._open[-1] != b"(":
            return super()._leave()
        self._end()
        return "}"

    def _keyword(self) -> str | None:
        at = self._buffer.find(b"=")
        if at < 0:
            return None
        key = self._take(at).decode("utf-8", "replace").strip()
        self._take(1)
        self._begin_value()
        return f"{dumps(key)}: "

    def _key(self) -> str | None:
        """A key is a text, with a colon after it."""
        self._buffer = self._buffer.lstrip()
        if not self._buffer:
            return None
        self._quote, self._after = self._take(1), self._colon
        self._step = self._text
        return '"'

    def _colon(self) -> str | None:
        if not self._buffer:
            return None
        self._take(1)
        self._begin_value()
        return ": "

    def _value(self) -> str | None:
        self._buffer = self._buffer.lstrip()
        if not self._buffer:
            return None
        if self._buffer[:1] in (b"'", b'"'):
            self._quote, self._after = self._take(1), self._after_text
            self._step = self._text
            return '"'
        if self._buffer[:1] in (b"{", b"["):
            return self._enter()
        self._step = self._scalar
        return ""

    def _text(self) -> str | None:
        """A piece of text: an escape, what comes before the next one, or the end."""
        if not self._buffer:
            return None
        if self._buffer[:1] == self._quote:
            self._take(1)
            self._step = self._after
            return '"'
        if self._buffer[:1] == b"\\":
            if len(self._buffer) < 2:
                return None
            pair = self._take(2).decode("utf-8", "replace")
            return "'" if pair == "\\'" else pair
        ends = [at for byte in (self._quote, b"\\") if (at := self._buffer.find(byte)) >= 0]
        return within(self._decoder.decode(self._take(min(ends, default=len(self._buffer)))))
