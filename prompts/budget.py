"""What one rendering of a template may cost: steps, time, and the size of what it builds."""

from __future__ import annotations

import re
import time
from collections.abc import ItemsView, KeysView, Sequence, Sized, ValuesView
from dataclasses import dataclass
from typing import Any

from jinja2.utils import Namespace

_MAX_INT_BITS = 4096
_TOTAL = 16  # all texts and lists together, in units of the largest allowed one
_ITEM_CHARS = 32  # what an item of a list costs beside a character of a text, and a list itself


class TemplateFailed(Exception):
    """The template does not compile, raised, or went over a bound. One readable line."""


class TemplateTooCostly(TemplateFailed):
    """It went over a bound; trying the same template in another shape would not help."""


@dataclass(frozen=True)
class Limits:
    """`max_size` counts characters of a text; a list may have an eighth as many items. Seconds are
    CPU time.
    """

    max_size: int = 8_000_000
    max_steps: int = 20_000_000
    max_seconds: float = 3.0


_CONTAINERS = (list, tuple, KeysView, ValuesView, ItemsView)


class Budget:
    """What one rendering has left. Every method raises TemplateTooCostly when it is too much."""

    def __init__(self, limits: Limits) -> None:
        self._max_size = limits.max_size
        self._left_in_total = limits.max_size * _TOTAL
        self._steps = limits.max_steps
        self._deadline = time.thread_time() + limits.max_seconds

    def step(self) -> None:
        """One round of a loop, one call, one piece of output."""
        self._steps -= 1
        if self._steps < 0:
            raise TemplateTooCostly("it takes too many steps")
        if not self._steps % 64:
            self.check_time()

    def check_time(self) -> None:
        if time.thread_time() > self._deadline:
            raise TemplateTooCostly("it takes too long")

    def build(self, size: int) -> None:
        """A text of that size is about to be made."""
        self._left_in_total -= size
        if size > self._max_size or self._left_in_total < 0:
            raise TemplateTooCostly("it builds a text or a list that is too large")

    def build_items(self, count: int) -> None:
        """A list of so many items, or any other container, is about to be made."""
        self._left_in_total -= (count + 1) * _ITEM_CHARS
        if count > self._max_size // 8 or self._left_in_total < 0:
            raise TemplateTooCostly("it builds a text or a list that is too large")

    def made(self, value: Any) -> None:
        """A value was just made, of which at most one text or list is new."""
        if isinstance(value, str):
            self.build(len(value))
        elif isinstance(value, list | tuple | dict):
            self.build_items(len(value))

    def text(self, value: Any) -> str:
        """`str(value)`."""
        if not isinstance(value, str):
            self.walk(value)
            value = str(value)
        self.build(len(value))
        return str(value)

    def walk(self, value: Any) -> None:
        """Whatever goes through all of a value comes here first. A list that is inside another
        many times over, and that inside a third, is soon so large that Python would never end.
        """
        if isinstance(value, Namespace):
            value = value._Namespace__attrs
        if isinstance(value, dict):
            value = value.items()
        elif not isinstance(value, _CONTAINERS):
            return
        for item in value:
            self.step()
            self.walk(item)

    def slice(self, value: Any, part: slice) -> None:
        """`value[part]` is about to be made."""
        if isinstance(value, Sized):
            size = len(range(*part.indices(len(value))))
            (self.build if isinstance(value, str) else self.build_items)(size)

    def join(self, separator: str, texts: list[str]) -> str:
        self.build(sum(map(len, texts)) + len(texts) * len(separator))
        return separator.join(texts)

    def replace(self, text: str, old: str, new: str, count: int = -1) -> str:
        self.build(len(text) + text.count(old) * max(0, len(new) - len(old)))
        return text.replace(old, new, count)

    def percent(self, text: str, values: Any) -> None:
        """`text % values` is about to be made."""
        if re.search(r"%[^%a-zA-Z]*[\d*]", text):
            raise TemplateFailed("a width in % formatting is not supported")
        self.build(len(text) + text.count("%") * len(self.text(values)))

    def product(self, left: Any, right: Any) -> None:
        """`left * right` is about to be made."""
        if isinstance(left, int) and isinstance(right, Sequence):
            left, right = right, left
        if isinstance(left, Sequence) and isinstance(right, int):
            size = len(left) * max(0, right)
            (self.build if isinstance(left, str) else self.build_items)(size)
        elif isinstance(left, int) and isinstance(right, int):
            self._number(left.bit_length() + right.bit_length())

    def power(self, left: Any, right: Any) -> None:
        """`left ** right` is about to be made."""
        if isinstance(left, int) and isinstance(right, int):
            self._number(left.bit_length() * abs(right))

    def _number(self, bits: int) -> None:
        if bits > _MAX_INT_BITS:
            raise TemplateTooCostly("it computes a number that is too large")
