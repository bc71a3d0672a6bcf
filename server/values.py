"""The values that a guided answer writes: followed byte by byte, checked when finished."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from server.errors import ConstraintFailed
from server.events import CallArguments, CallBegins, CallEnds
from server.json_text import Layout, ValueTracker
from server.output import OutputParser
from server.schema.checker import Complaint, Uncheckable

_BEFORE = re.compile(rb"\A[^{\[]+")
"""What opens an answer in JSON and is no part of it."""


class Checker(Protocol):
    def complaints(self, value: Any) -> list[Complaint]:
        """What a value breaks; empty if nothing. Raises Uncheckable."""
        ...


@dataclass(frozen=True)
class Check:
    """Holds a finished value to what was asked. `needed`: the grammar says less than that."""

    checker: Checker
    needed: bool


@dataclass(frozen=True)
class Fault:
    """Why a finished value will not do.

    `text` is the value; what is wrong stands in its bytes from `begin` to `end`.
    """

    why: str
    text: bytes
    begin: int
    end: int


class Values:
    """Follows the values of one answer.

    `parser` makes a parser of calls; `checks` has one per tool, and "" for an answer in JSON.
    `began` is the length of the log of tokens where the value at hand began, `fault` what is wrong
    with the one that was finished last, `repeated` that it says the same as an earlier call.
    """

    def __init__(self, parser: Callable[[], OutputParser], checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._parser = parser()
        self._answer = ValueTracker() if "" in checks else None
        self._text = b""
        self._name: str | None = None
        self._arguments = ""
        self._made: list[tuple[str, str]] = []  # finished calls of the turn
        self.began = 0
        self.fault: Fault | None = None
        self.repeated = False

    @property
    def digits_left(self) -> int:
        """How many digits the number at hand may still have."""
        left = self._parser.digits_left
        return min(left, self._answer.digits_left) if self._answer else left

    @property
    def between_calls(self) -> bool:
        """Whether a call is finished and no other has begun."""
        return self._name is None and bool(self._made)

    def held(self, length: int) -> int:
        """How many of the last tokens may still be taken back."""
        name = self._name if self._name is not None else "" if self._answer else None
        if name is None or not (self._checks[name].needed or self._may_repeat()):
            return 0
        return length - self.began

    def _may_repeat(self) -> bool:
        """Whether the call at hand has so far said the same as an earlier one."""
        return any(
            name == self._name and arguments.startswith(self._arguments)
            for name, arguments in self._made
        )

    def feed(self, data: bytes, length: int) -> None:
        """Read the bytes of a token, with which the log has `length` entries.

        Raises ConstraintFailed for a fault that comes too late: parts of the value were told.
        """
        for event in self._parser.feed(data):
            if isinstance(event, CallBegins):
                self._answer = None  # it is a call, then
                self._name, self._arguments, self.began = event.name, "", max(0, length - 1)
            elif isinstance(event, CallArguments):
                self._arguments += event.text
            elif isinstance(event, CallEnds) and self._name is not None:
                call = (self._name, self._arguments)
                self.repeated = call in self._made
                self.fault = self._check(*call)
                self._made.append(call)
                self._name = None
        if self._answer and self._name is None:
            self._text += data
            if self._answer.feed(data) is not None:
                text = _BEFORE.sub(b"", self._text).decode("utf-8", "replace")
                self.fault = self._check("", text)

    def _check(self, name: str, text: str) -> Fault | None:
        check = self._checks[name]
        try:
            fault = find_fault(text, check.checker)
        except Uncheckable as exc:
            raise ConstraintFailed(f"the schema of {name or 'the answer'} fails: {exc}") from None
        if fault is not None and not check.needed:
            raise ConstraintFailed(f"what {name or 'the answer'} says breaks {fault.why}")
        return fault


def find_fault(text: str, checker: Checker) -> Fault | None:
    """The first thing in a JSON text that a client would stumble over, or that breaks the schema.

    Raises Uncheckable.
    """
    doubled = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubled
        result = dict(pairs)
        doubled |= len(result) < len(pairs)
        return result

    try:
        value = json.loads(text, object_pairs_hook=members, parse_float=_finite)
        complaints = checker.complaints(value)
        if not doubled and not complaints:
            return None
        layout = Layout.of(text)
    except RecursionError:
        raise Uncheckable("its values are nested too deeply") from None
    if doubled:
        (begin, end), why = layout.doubled[0], "the rule that no name comes twice in an object"
    else:
        spans = ((layout.spans[each.path], str(each)) for each in complaints)
        (begin, end), why = min(spans, key=lambda found: found[0][1])
    return Fault(why, text.encode(), len(text[:begin].encode()), len(text[:end].encode()))


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Uncheckable("a number is larger than a double can hold")
    return number
