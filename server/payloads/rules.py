"""Lark rules under construction, as text for llguidance."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]
SplitSpecial = Callable[[str], list[str | int]]

STYLE = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
MAX_RULES = 50_000


class TooMany(ValueError):
    """A schema takes more rules than a grammar should have."""


@dataclass
class Rules:
    """`inexact` turns true where a rule lets through what its schema does not."""

    split_special: SplitSpecial
    lines: list[str] = field(default_factory=list)
    inexact: bool = False
    _texts: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    def add(self, name: str, body: str) -> str:
        self.lines.append(f"{name}: {body}")
        return name

    def new(self, body: str, *, terminal: bool = False, suffix: str = "") -> str:
        """A rule without a name of its own; the same one for the same body.

        `suffix`: the rule ends with the first occurrence of that text.
        """
        key = f"{terminal}/{suffix}/{body}"
        if key not in self._texts:
            name = self.reserve(terminal=terminal)
            self._texts[key] = name
            self.add(f"{name}[suffix={quoted(suffix)}]" if suffix else name, body)
        return self._texts[key]

    def reserve(self, *, terminal: bool = False) -> str:
        """A name for a rule that is added later."""
        self._count += 1
        if self._count > MAX_RULES:
            raise TooMany("its parameters are too many for a grammar")
        return f"{'T' if terminal else 'r'}_{self._count}"

    def text(self, text: str, *, literal: bool) -> str:
        """A fixed text; special tokens in it become token references unless `literal`."""
        return " ".join(
            f"<[{part}]>" if isinstance(part, int) else quoted(part)
            for part in self.parts(text, literal=literal)
        )

    def parts(self, text: str, *, literal: bool) -> list[str | int]:
        """`text` as plain pieces and ids of special tokens."""
        parts: list[str | int] = [text] if literal else self.split_special(text)
        return [part for part in parts if part != ""]


def quoted(text: str) -> str:
    """A literal text in Lark."""
    return json.dumps(text, ensure_ascii=False)


def pattern(text: str) -> str:
    """A regular expression in Lark."""
    return "/" + text.replace("/", r"\/") + "/"


def exactly(text: str) -> str:
    """A pattern for a text itself."""
    return "".join(char if char.isalnum() else f"\\x{{{ord(char):x}}}" for char in text)


def json_value(schema: Any) -> str:
    """A value of a schema as JSON, in the style the models were trained on."""
    if not isinstance(schema, dict):
        schema = {} if schema else {"not": {}}
    return "%json " + json.dumps({**schema, "x-guidance": STYLE}, ensure_ascii=False)
