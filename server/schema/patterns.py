"""Patterns of JSON Schema, read as ECMA-262 does and written for the two engines at hand.

JSON Schema's dialect is ECMA-262 in Unicode mode (https://262.ecma-international.org/#sec-patterns),
searched anywhere in the text. The grammar's engine and the `regex` module each read some of it in
another way (`\\d`, `\\s`, `.`, `$`), and let through what is an error there. So a pattern is read
here and written again in what all agree on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import regex

MAX_LENGTH = 20_000  # characters
MAX_GROUPS = 100  # nested in each other
MAX_SIZE = 2**17  # characters with all counted repetitions written out
TOP = 0x10FFFF

# Pieces of syntax.
_NAMED = regex.compile(r"\?P?<([A-Za-z_]\w*)>")
_AROUND = regex.compile(r"\?<?[=!]")
_PLAIN_GROUP = regex.compile(r"\?[ims]*(-[ims]+)?:")
_FLAGS = regex.compile(r"\?[ims]+\)")
_COUNTED = regex.compile(r"([0-9]+)(,([0-9]*))?\}")
_NAME = regex.compile(r"<([A-Za-z_]\w*)>")
_PROPERTY = regex.compile(r"\{(\w+(?:=\w+)?)\}")
_UNICODE = regex.compile(r"\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{4})")
_LOW_HALF = regex.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_DIGIT = regex.compile(r"[0-9]?")
_LETTER = regex.compile(r"[A-Za-z]")
_HEX = regex.compile(r"[0-9a-fA-F]{2}")

Ranges = tuple[tuple[int, int], ...]

DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Ranges = (
    *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
LINE_END: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
EVERYTHING: Ranges = ((0, TOP),)
WORD_END = "(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))"
CONTROL = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}


class BadPattern(ValueError):
    """The text is no pattern; the message says why."""


@dataclass(frozen=True)
class Pattern:
    """`grammar` is for the back end, `check` for the `regex` module.

    The back end knows no conditions on the surroundings (lookarounds, word edges) and no
    references to groups: without them `grammar` matches more, and is not `exact`. Nor is it where a
    property is absent: the back end's Unicode is older, and has fewer characters. Where a set of
    characters has U+0000 and others, `grammar` leaves it out: within JSON, llguidance 1.9.1 reads
    a set with all control characters as one with the quote and the backslash too. `size` is the
    length with all counted repetitions written out: what compiling it costs.
    """

    grammar: str
    check: str
    exact: bool
    size: int


def read(pattern: str) -> Pattern:
    """Raises BadPattern."""
    if len(pattern) > MAX_LENGTH:
        raise BadPattern(f"longer than {MAX_LENGTH} characters")
    reader = _Reader(pattern)
    reader.run()
    return Pattern("".join(reader.grammar), "".join(reader.check), reader.exact, reader.size)


def _property_set(name: str) -> str:
    """The characters with a property, or without one, as the back end is to read them."""
    return f"[^{name.replace('P', 'p', 1)}{NUL}]" if name.startswith("\\P") else name


def complement(ranges: Ranges) -> Ranges:
    """The characters that are in none of the ranges, which are in order and apart."""
    result = []
    start = 0
    for first, last in ranges:
        if first > start:
            result.append((start, first - 1))
        start = last + 1
    return (*result, (start, TOP)) if start <= TOP else tuple(result)


CLASSES: dict[str, Ranges] = {
    **{"d": DIGIT, "w": WORD, "s": SPACE},
    **{"D": complement(DIGIT), "W": complement(WORD), "S": complement(SPACE)},
}


def literal(code: int) -> str:
    """A character as both engines read it, inside and outside of brackets."""
    char = chr(code)
    return char if code < 0x80 and char.isalnum() else f"\\U{code:08X}"


def _set(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(
        literal(first) if first == last else f"{literal(first)}-{literal(last)}"
        for first, last in ranges
    )


NUL = literal(0)


def _without_nul(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges without U+0000, if there is anything else in them."""
    ranges = tuple(ranges)
    return tuple((max(first, 1), last) for first, last in ranges if last > 0) or ranges


@dataclass
class _Group:
    """A group of the pattern. `begin` is where its text begins in the grammar's form.

    `name` is None for one that captures nothing, `text` its grammar once it is closed, `size` that
    of all of it.
    """

    name: str | None
    begin: int
    size_before: int
    around: bool = False
    text: str = ""
    size: int = 0


class _Reader:
    """Reads a pattern from left to right, writing both forms."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._open: list[_Group] = []
        self._captures: list[_Group] = []
        self._references: list[str] = []
        self._atom = False  # whether a quantifier may come now
        self._atom_size = 0
        self.grammar: list[str] = []
        self.check: list[str] = []
        self.exact = True
        self.size = 0

    def run(self) -> None:
        while self._at < len(self._text):
            self._next()
            if self.size > MAX_SIZE:
                raise BadPattern(f"with its repetitions it is larger than {MAX_SIZE}")
        if self._open:
            raise BadPattern("a group is not closed")
        for name in self._references:
            if self._captured(name) is None:
                raise BadPattern(f"it refers to a group {name} that is not there")

    def _captured(self, name: str) -> _Group | None:
        """The group that a reference means, so far as it was read."""
        if name.isdecimal():
            return self._captures[int(name) - 1] if int(name) <= len(self._captures) else None
        return next((group for group in self._captures if group.name == name), None)

    def _next(self) -> None:
        char = self._take()
        if char == "(":
            self._group()
        elif char == ")":
            self._close()
        elif char == "[":
            self._class()
        elif char == "\\":
            self._escape()
        elif char in "*+?{" and self._quantifier(char):
            self._atom = False
        elif char in "|^":
            self._write(char, atom=False)
        elif char == "$":
            self._write("$", atom=False, check="\\Z")
        elif char == ".":
            self._write(f"[^{_set(LINE_END)}]")
        else:
            self._write(literal(ord(char)))

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise BadPattern("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _match(self, piece: regex.Pattern[str]) -> regex.Match[str] | None:
        """Read on over a piece of syntax if it comes next."""
        found = piece.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _skip(self, text: str) -> bool:
        """Read on over a text if it comes next."""
        found = self._text.startswith(text, self._at)
        if found:
            self._at += len(text)
        return found

    def _write(self, text: str, *, atom: bool = True, check: str | None = None) -> None:
        self.grammar.append(text)
        self.check.append(text if check is None else check)
        self._atom = atom
        self._atom_size = 1
        self.size += 1

    def _group(self) -> None:
        group = _Group(None, len(self.grammar), self.size)
        if found := self._match(_NAMED):
            self._write("(", check=f"(?P<{found[1]}>")
            group.name = found[1]
        elif found := self._match(_AROUND):
            self._write("(" + found[0])
            group.around = True
        elif found := self._match(_PLAIN_GROUP):
            self._write("(" + found[0])
        elif found := self._match(_FLAGS):
            self._write("(" + found[0], atom=False)
            return
        elif self._skip("?"):
            raise BadPattern("it has a kind of group that ECMA-262 does not know")
        else:
            self._write("(")
            group.name = ""
        self._atom = False
        self._open.append(group)
        if group.name is not None:
            self._captures.append(group)
        if len(self._open) > MAX_GROUPS:
            raise BadPattern(f"groups are nested more than {MAX_GROUPS} deep")

    def _close(self) -> None:
        if not self._open:
            raise BadPattern("a group is closed that was not opened")
        group = self._open.pop()
        self._write(")", atom=not group.around)
        self._atom_size = group.size = self.size - group.size_before
        if group.around:
            del self.grammar[group.begin :]
            self.exact = False
        elif group.name is not None:
            group.text = "".join(self.grammar[group.begin :])

    def _reference(self, name: str, check: str) -> None:
        """What a group has matched again: in the grammar, anything that it may match."""
        self._references.append(name)
        group = self._captured(name)
        text = f"(?:{group.text})?" if group and group.text else ""
        self._write(f"(?:{text})", check=check)
        self._atom_size = group.size if group else 1
        self.size += self._atom_size
        self.exact = False

    def _quantifier(self, char: str) -> bool:
        """Read a quantifier; False if a brace is only a brace."""
        if char == "{":
            found = self._match(_COUNTED)
            if not found:
                return False
            char += found[0]
            times = int(found[3] or found[1])
            if times < int(found[1]):
                raise BadPattern("a quantifier runs backwards")
            self.size += self._atom_size * min(times, MAX_SIZE)
        if not self._atom:
            raise BadPattern("nothing to repeat")
        self._write(char + ("?" if self._skip("?") else ""), atom=False)
        return True

    def _escape(self) -> None:
        char = self._take()
        if char in "bB":
            edge = WORD_END.format(_set(WORD))
            self._write("", atom=False, check=edge if char == "b" else f"(?!{edge})")
            self.exact = False
        elif char in "123456789":
            found = self._match(_DIGIT)
            number = char + (found[0] if found else "")
            self._reference(number, f"(?:\\{number})")
        elif char == "k":
            found = self._match(_NAME)
            if not found:
                raise BadPattern("\\k without the name of a group")
            self._reference(found[1], f"(?P={found[1]})")
        elif char in CLASSES:
            ranges = CLASSES[char]
            self._write(f"[{_set(_without_nul(ranges))}]", check=f"[{_set(ranges)}]")
        elif char in "pP":
            name = self._property(char)
            self._write(_property_set(name), check=name)
        else:
            self._write(literal(self._character(char)))

    def _property(self, char: str) -> str:
        found = self._match(_PROPERTY)
        if not found:
            raise BadPattern(f"\\{char} without the name of a property")
        name = f"\\{char}{{{found[1]}}}"
        try:
            regex.compile(name)
        except regex.error:
            raise BadPattern(f"{name} is no property of characters") from None
        self.exact &= char == "p"
        return name

    def _character(self, char: str) -> int:
        """The character that an escape stands for, `char` being what follows the backslash."""
        if char in CONTROL:
            return CONTROL[char]
        if char == "0" and not self._text[self._at : self._at + 1].isdecimal():
            return 0
        if char == "c" and (found := self._match(_LETTER)):
            return ord(found[0]) % 32
        if char == "x" and (found := self._match(_HEX)):
            return int(found[0], 16)
        if char == "u" and (found := self._match(_UNICODE)):
            return self._unicode(int(found[1] or found[2], 16))
        if char.isascii() and char.isalnum():
            raise BadPattern(f"\\{char} is no escape of ECMA-262")
        return ord(char)

    def _unicode(self, code: int) -> int:
        """The code itself, or the character of a pair of surrogates that begins with it."""
        low = self._match(_LOW_HALF) if 0xD800 <= code < 0xDC00 else None
        if low:
            code = 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        if code > TOP or 0xD800 <= code < 0xE000:
            raise BadPattern("it names a character that no text has")
        return code

    def _class(self) -> None:
        negated = self._skip("^")
        ranges: list[tuple[int, int]] = []
        properties: list[str] = []
        while not self._skip("]"):
            first = self._member(ranges, properties)
            if first is None:
                continue
            if not self._text.startswith("-]", self._at) and self._skip("-"):
                last = self._member(ranges, properties)
                if last is None:
                    ranges += [(first, first), (ord("-"), ord("-"))]
                elif last < first:
                    raise BadPattern("a range in brackets runs backwards")
                else:
                    ranges.append((first, last))
            else:
                ranges.append((first, first))
        members = _set(ranges) + "".join(properties)
        if not members:
            self._write(f"[{'' if negated else '^'}{_set(EVERYTHING)}]")
        elif negated:
            self._write(f"[^{members}{NUL}]", check=f"[^{members}]")
            self.exact &= not properties
        else:
            sets = [f"[{_set(_without_nul(ranges))}]"] if ranges else []
            sets += map(_property_set, properties)
            text = sets[0] if len(sets) == 1 else f"(?:{'|'.join(sets)})"
            self._write(text, check=f"[{members}]")

    def _member(self, ranges: list[tuple[int, int]], properties: list[str]) -> int | None:
        """The next character in brackets; None for a set of them, which is added to the lists."""
        char = self._take()
        if char != "\\":
            return ord(char)
        char = self._take()
        if char in CLASSES:
            ranges += CLASSES[char]
        elif char in "pP":
            properties.append(self._property(char))
        else:
            return 0x08 if char == "b" else self._character(char)
        return None
