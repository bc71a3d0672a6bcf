"""Patterns of a Lark grammar in their escaped form, as they are written within a JSON string.

The dialect is that of the `regex` crate (https://docs.rs/regex/latest/regex/#syntax). There are two
forms. As one *lexeme* groups, alternatives and quantifiers stay as they are, and what stands for
one character is replaced. But a lexer decides by one byte whether a lexeme goes on, and every
escape begins with the same one: so there is also a form as an expression of *rules*, in which each
escape is a lexeme of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise

import regex

SPECIAL = (*map(chr, range(0x20)), '"', "\\")
"""The characters that JSON wants escaped."""
_NO_SPECIAL = r'[^"\\\x00-\x1f]'
MAX_GROUPS = 50  # nested in each other

_OPEN = regex.compile(r"\((?:\?(?:P?<\w+>|([a-zA-Z-]*)([:)])))?")
_QUANTIFIER = regex.compile(r"([*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_ATOM = regex.compile(
    r"""(?P<dot>\.)
      | (?P<anchor>[\^$]|\\[AzZ])
      | (?P<set>\[\^?\]?(?:\\.|[^\[\]\\]|(?P<inner>\[\^?(?:\\.|[^\[\]\\]|(?&inner))*\]))*\])
      | (?P<class>\\[dDwWsS]|\\[pP](?:[A-Za-z]|\{[^{}]+\}))
      | (?P<code>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[xuU]\{[0-9a-fA-F]{1,8}\}))
      | (?P<escape>\\.)
      | (?P<char>[^\\\[(){}*+?|]|[\]{}])
    """,
    regex.VERBOSE | regex.DOTALL,
)
_BRACED = regex.compile(r"\\[xuU]\{([0-9a-fA-F]{1,8})\}")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class NotTranslatable(ValueError):
    """The pattern says something that has no escaped form here."""


@dataclass(frozen=True)
class Escaped:
    """A pattern in both forms; they are one where it has no `special` character.

    `skips` are the lexemes of which it is a repetition, if it is one.
    """

    lexeme: str
    rules: str
    special: bool
    skips: tuple[str, ...] = ()


def escaped_text(text: str) -> str:
    """A text as it stands within a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def plain_pattern(text: str) -> str:
    """A pattern for a text itself, also within brackets."""
    return "".join(
        char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}" for char in text
    )


def escaped_pattern(pattern: str, flags: str, *, alone: bool = True) -> Escaped:
    """The pattern of the escaped texts, flags included. Raises NotTranslatable.

    `alone`: nothing follows it in its lexeme, so that it may take all that it can.
    """
    if set(flags) - set("is"):
        raise NotTranslatable
    reader = _Reader(pattern)
    flag_set = frozenset(flags)
    whole = reader.alternatives(flag_set, last=alone)
    if reader.at < len(pattern):
        raise NotTranslatable
    lexeme = f"/{whole.lexeme}/" if not flag_set else f"/(?{flags}:{whole.lexeme})/"
    if not whole.special:
        return Escaped(lexeme, lexeme, special=False)
    return Escaped(lexeme, f"({whole.rules})", True, tuple(f"/{each}/" for each in whole.skips))


@dataclass
class _Item:
    """A part of a pattern. `plain` and `escapes` are patterns of one character each, if it is a set
    of them that says so; `flags` hold for it.
    """

    lexeme: str
    flags: frozenset[str]
    rules: str = ""
    special: bool = False
    plain: str = ""
    escapes: str = ""
    quantifier: str = ""
    among: list[_Item] = field(default_factory=list)  # the alternatives of a group

    @property
    def only_escapes(self) -> bool:
        return self.special and not (self.plain or self.among or self.rules or self.quantifier)

    def expression(self, *, greedy: bool) -> str:
        """As an expression of rules. `greedy`: what follows never begins as this goes on."""
        if not self.special:
            return _lexeme(self.lexeme + self.quantifier, self.flags)
        several = greedy and self.quantifier in ("*", "+")
        ways = [way for each in self.among or [self] for way in each.ways(several)]
        return f"({' | '.join(ways)}){self.quantifier}"

    def ways(self, several: bool) -> list[str]:
        """The alternatives of one step; `several` steps may follow each other."""
        if not self.plain and not self.escapes:
            return [self.rules or _lexeme(self.lexeme, self.flags)]
        return [f"/{each}/" for each in self.lexemes(several)]

    def lexemes(self, several: bool) -> list[str]:
        plain = [_within(self.flags, self.plain + ("+" if several else ""))] if self.plain else []
        return plain + ([self.escapes] if self.escapes else [])


@dataclass(frozen=True)
class _Whole:
    lexeme: str
    rules: str
    special: bool
    among: list[_Item]
    skips: list[str]


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._depth = 0
        self.at = 0

    def alternatives(self, flags: frozenset[str], *, last: bool) -> _Whole:
        """Up to the end of the group; flags that are set in one alternative hold for the rest."""
        sequences: list[list[_Item]] = []
        while True:
            items, flags = self._sequence(flags)
            sequences.append(items)
            if not self._text.startswith("|", self.at):
                break
            self.at += 1
        lexeme = "|".join(
            "".join(each.lexeme + each.quantifier for each in items) for items in sequences
        )
        special = any(each.special for items in sequences for each in items)
        rules = " | ".join(_sequence_rules(items, last) for items in sequences) if special else ""
        among = [_alternative(items, flags) for items in sequences]
        return _Whole(lexeme, rules, special, among, _skips(sequences))

    def _sequence(self, flags: frozenset[str]) -> tuple[list[_Item], frozenset[str]]:
        items: list[_Item] = []
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            found = _OPEN.match(self._text, self.at)
            if found:
                self.at = found.end()
                inside = _with_flags(flags, found[1] or "")
                if found[2] == ")":
                    flags = inside
                    continue
                item = self._group(found[0], inside)
            else:
                item = self._atom(flags)
            quantifier = _QUANTIFIER.match(self._text, self.at)
            if quantifier:
                self.at = quantifier.end()
                item.quantifier = quantifier[1]
            items.append(item)
        return items, flags

    def _group(self, opening: str, flags: frozenset[str]) -> _Item:
        self._depth += 1
        if self._depth > MAX_GROUPS:
            raise NotTranslatable
        whole = self.alternatives(flags, last=False)
        self._depth -= 1
        if not self._text.startswith(")", self.at):
            raise NotTranslatable
        self.at += 1
        # Flags stand with the parts that they hold for.
        lexeme = f"(?:{whole.lexeme})"
        among = whole.among if whole.special else []
        return _Item(lexeme, flags, rules=whole.rules, special=whole.special, among=among)

    def _atom(self, flags: frozenset[str]) -> _Item:
        found = _ATOM.match(self._text, self.at)
        if found is None:
            raise NotTranslatable
        self.at = found.end()
        text = found[0]
        match found.lastgroup:
            case "dot":
                special = [char for char in SPECIAL if "s" in flags or char != "\n"]
                return _set_item(_NO_SPECIAL, special, flags)
            case "anchor":
                return _Item("", flags)  # it stands at an end, where it says nothing
            case "set" | "class":
                return _set(text, flags)
            case "code":
                return _char(int(text[2:].strip("{}"), 16), text, flags)
            case "escape" if text[1] in _CONTROL:
                return _char(ord(_CONTROL[text[1]]), text, flags)
            case "escape" if text[1].isalnum():
                raise NotTranslatable
        return _char(ord(text[-1]), text, flags)


_END = _Item("", frozenset(), special=True)


def _with_flags(flags: frozenset[str], said: str) -> frozenset[str]:
    on, _, off = said.partition("-")
    if set(on + off) - set("is"):
        raise NotTranslatable
    return (flags | set(on)) - set(off)


def _within(flags: frozenset[str], pattern: str) -> str:
    return f"(?i:{pattern})" if "i" in flags else pattern


def _lexeme(pattern: str, flags: frozenset[str]) -> str:
    return f"/{_within(flags, pattern)}/" if pattern else '""'


def _sequence_rules(items: list[_Item], last: bool) -> str:
    """Items one after the other; those without special characters together in one lexeme.

    `last`: nothing follows.
    """
    parts: list[str] = []
    run, flags = "", frozenset[str]()
    for item, after in pairwise([*items, _END, _END]):
        if run and (item.special or item.flags != flags):
            parts.append(_lexeme(run, flags))
            run = ""
        if item.special:
            greedy = last if after is _END else after.only_escapes
            parts.append(item.expression(greedy=greedy) if item is not _END else "")
        else:
            run, flags = run + item.lexeme + item.quantifier, item.flags
    return " ".join(filter(None, parts)) or '""'


def _alternative(items: list[_Item], flags: frozenset[str]) -> _Item:
    if len(items) == 1 and not items[0].quantifier:
        return items[0]
    lexeme = "".join(each.lexeme + each.quantifier for each in items)
    return _Item(lexeme, flags, rules=_sequence_rules(items, last=False))


def _skips(sequences: list[list[_Item]]) -> list[str]:
    """The lexemes of a pattern that is a repetition of one set, or of alternatives that are."""
    if len(sequences) != 1 or len(sequences[0]) != 1 or sequences[0][0].quantifier == "?":
        return []
    item = sequences[0][0]
    ways = item.among or [item]
    if any(not way.plain and not way.escapes for way in ways):
        return []
    return [lexeme for way in ways for lexeme in way.lexemes(several=True)]


def _char(code: int, text: str, flags: frozenset[str]) -> _Item:
    """One character, which `text` stands for."""
    if code < 0x80 and chr(code) in SPECIAL:
        return _set_item("", [chr(code)], flags)
    return _Item(text, flags)


def _set(text: str, flags: frozenset[str]) -> _Item:
    """A set of characters: those that need no escape, and the escapes of the others in it."""
    if "||" in text:
        raise NotTranslatable
    readable = _BRACED.sub(lambda match: f"\\U{int(match[1], 16):08x}", text)
    try:
        found = regex.compile(readable if text[0] == "[" else f"[{readable}]", regex.V1)
    except regex.error:
        raise NotTranslatable from None
    special = [char for char in SPECIAL if found.fullmatch(char)]
    if not special:
        return _Item(text, flags)
    return _set_item(f"[{text}&&{_NO_SPECIAL}]", special, flags)


def _set_item(plain: str, special: list[str], flags: frozenset[str]) -> _Item:
    escapes = f"(?-i:{_escapes(special)})" if "i" in flags else _escapes(special)
    lexeme = f"(?:{plain}|{escapes})" if plain else f"(?:{escapes})"
    return _Item(lexeme, flags, special=True, plain=plain, escapes=escapes)


def _escapes(special: list[str]) -> str:
    """A pattern for the escapes of these characters."""
    short = "".join(escaped_text(c)[1] for c in special if len(escaped_text(c)) == 2)
    ways = []
    if short:
        ways.append(r"\\[" + "".join(f"\\{c}" if c in '"\\' else c for c in short) + "]")
    for digit in "01":
        last = [f"{ord(c):02x}"[1] for c in special if escaped_text(c).startswith(f"\\u00{digit}")]
        if last:
            ways.append(rf"\\u00{digit}[{''.join(last)}]")
    return "|".join(ways)
