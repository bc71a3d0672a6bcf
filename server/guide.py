"""The constraint of one sequence: which token may come next, and what to take back.

Two phases. *Free*: any text, watched for an opening of a call. *Guided*: a matcher holds the answer
to the grammar. An answer may begin in either, and goes from free to guided once.

A keyword that the grammar does not enforce is checked on the finished value. If it fails, sampled
tokens are taken back, from the end and each time further, and what was chosen there is banned: a
search that is bounded, and deterministic where sampling is.

A call that says the same as an earlier one of the turn is taken back too and ends the turn: small
models repeat themselves to the token limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from server.engine.vocabulary import Vocabulary
from server.errors import ConstraintFailed
from server.events import CallArguments, CallBegins, CallEnds
from server.json_text import ValueTracker
from server.openings import OpeningFinder
from server.output import OutputParser
from server.schema import Checker

Allowed = NDArray[np.bool_]  # shape (vocabulary,)

MAX_TRIES = 24
MAX_DIGITS = 24  # of one number: more than any 64-bit integer needs


class Matcher(Protocol):
    """What is used of llguidance's LLMatcher."""

    def deep_copy(self) -> Matcher: ...
    def consume_tokens(self, sampled_tokens: list[int]) -> bool: ...
    def try_consume_tokens(self, tokens: list[int]) -> int: ...
    def validate_tokens(self, tokens: list[int]) -> int: ...
    def compute_ff_tokens(self) -> list[int]: ...
    def compute_ff_bytes(self) -> bytes: ...
    def compute_bitmask(self) -> bytes: ...
    def is_stopped(self) -> bool: ...
    def is_error(self) -> bool: ...
    def get_error(self) -> str: ...


@dataclass(frozen=True)
class Check:
    """Holds a finished value to its schema. `needed`: the grammar says less than the schema."""

    checker: Checker
    needed: bool


@dataclass(frozen=True)
class Rules:
    """What is shared by all sequences of one compiled constraint.

    `matcher` is at its start; None: free text only. `free` is the mask of the free phase, None if
    the answer is guided from its first token. `triggers` are special tokens that open a call.
    `parser` makes a parser of calls; `checks` has one per tool, and "" for an answer in JSON.
    """

    vocabulary: Vocabulary
    matcher: Matcher | None
    free: Allowed | None
    triggers: frozenset[int]
    openings: tuple[bytes, ...]
    digits: Allowed
    parser: Callable[[], OutputParser]
    checks: Mapping[str, Check]


class Guide:
    """Implements the engine's TokenConstraint."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._finder = OpeningFinder(rules.openings)
        self._refused: set[int] = set()
        self._takeover: list[int] | None = None
        self._guided: _Guided | None = None
        if rules.free is None:
            self._guided = _Guided(rules, [])

    def forced(self) -> list[int]:
        return self._guided.forced() if self._guided else []

    def allows(self, token: int) -> bool:
        if self._guided:
            return self._guided.allows(token)
        if token in self._rules.triggers or token in self._rules.vocabulary.end:
            return True
        assert self._rules.free is not None
        if not self._rules.free[token] or token in self._refused:
            return False
        return not self._opens(token) or self._enters(token)

    def mask(self) -> Allowed:
        if self._guided:
            return self._guided.mask()
        if self._takeover is not None:
            return _Guided(self._rules, self._takeover).mask()
        assert self._rules.free is not None
        allowed = self._rules.free.copy()
        allowed[list(self._refused)] = False
        return allowed

    def accept(self, token: int) -> None:
        if self._guided is None:
            self._accept_free(token)
        else:
            self._guided.accept(token)

    def finished(self) -> bool:
        return self._guided is not None and self._guided.finished()

    def held(self) -> int:
        return self._guided.held() if self._guided else 0

    def take_back(self) -> int:
        return self._guided.take_back() if self._guided else 0

    def likely(self, limit: int) -> list[int]:
        return self._guided.likely(limit) if self._guided else []

    # The free phase

    def _opens(self, token: int) -> bool:
        return self._finder.peek(self._rules.vocabulary.pieces[token])

    def _enters(self, token: int) -> bool:
        """Whether the grammar takes an opening that `token` completes; remembers what to do if not.

        The token may say more than the opening, and not what the grammar wants next. Then the call
        is entered before this token, which is chosen again under the grammar.
        """
        held, piece = self._finder.held, self._rules.vocabulary.pieces[token]
        if self._fits(self._tail(held + piece)):
            return True
        before = self._tail(held)
        if held and self._fits(before):
            self._takeover = before
        else:
            self._refused.add(token)
        return False

    def _tail(self, text: bytes) -> list[int]:
        """Tokens of an opening. The grammar is one of bytes: any tokens of that text will do."""
        return self._rules.vocabulary.encode_text(text.lstrip(b" \t\n"))

    def _fits(self, tokens: list[int]) -> bool:
        assert self._rules.matcher is not None
        return self._rules.matcher.validate_tokens(tokens) == len(tokens)

    def _accept_free(self, token: int) -> None:
        piece = self._rules.vocabulary.pieces[token]
        if token in self._rules.triggers:
            self._guided = _Guided(self._rules, [])
            self._guided.accept(token)
        elif self._takeover is not None:
            self._guided = _Guided(self._rules, self._takeover)
            self._guided.accept(token)
        elif self._opens(token):
            self._guided = _Guided(self._rules, self._tail(self._finder.held + piece))
        else:
            self._finder.feed(piece)
        self._refused.clear()
        self._takeover = None


class _Guided:
    """The guided phase, from `prefix`: tokens of an opening that the free phase has let through."""

    def __init__(self, rules: Rules, prefix: list[int]) -> None:
        self._rules = rules
        self._prefix = prefix
        self._log: list[tuple[int, bool]] = []  # tokens, and whether they were a choice
        self._bans: dict[int, set[int]] = {}  # by position in the log
        self._tries = 0
        self._back = 0
        self._ended = False
        self._restart([])

    def _restart(self, log: Sequence[tuple[int, bool]]) -> None:
        """Set the state to what it is after `log`."""
        assert self._rules.matcher is not None
        self._matcher = self._rules.matcher.deep_copy()
        self._values = _Values(self._rules)
        self._log = []
        for token in self._prefix:
            self._consume(token)
            self._values.feed(self._rules.vocabulary.pieces[token], 0)
        for token, choice in log:
            self._consume(token)
            self._note(token, choice)

    def _consume(self, token: int) -> None:
        if not self._matcher.consume_tokens([token]):
            raise ConstraintFailed(f"the grammar is stuck: {self._matcher.get_error()[:200]}")

    def forced(self) -> list[int]:
        if self._bans.get(len(self._log)):
            return []
        run = self._matcher.compute_ff_tokens()
        if run and not self._matcher.consume_tokens(run):
            raise ConstraintFailed(f"the grammar is stuck: {self._matcher.get_error()[:200]}")
        for token in run:
            self._note(token, choice=False)
        return run

    def allows(self, token: int) -> bool:
        if token in self._bans.get(len(self._log), ()):
            return False
        if self._values.digits >= MAX_DIGITS and self._rules.digits[token]:
            return bool(self.mask()[token])
        return self._matcher.validate_tokens([token]) == 1

    def mask(self) -> Allowed:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        size = len(self._rules.vocabulary)
        allowed = np.unpackbits(bits, bitorder="little", count=size).view(np.bool_)
        if self._matcher.is_error():
            raise ConstraintFailed(f"the grammar is stuck: {self._matcher.get_error()[:200]}")
        for banned in self._bans.get(len(self._log), ()):
            allowed[banned] = False
        if self._values.digits >= MAX_DIGITS:
            shorter = allowed & ~self._rules.digits
            allowed = shorter if shorter.any() else allowed
        if not allowed.any():
            raise ConstraintFailed("the grammar allows no further token")
        return allowed

    def accept(self, token: int) -> None:
        self._consume(token)
        self._note(token, choice=True)

    def finished(self) -> bool:
        return self._ended or (self._back == 0 and self._matcher.is_stopped())

    def held(self) -> int:
        return self._values.held(len(self._log))

    def take_back(self) -> int:
        back, self._back = self._back, 0
        return back

    def likely(self, limit: int) -> list[int]:
        """Tokens of text that must come next, but may be written in other tokens too.

        After `"city":` a blank and a quote must follow; a token may hold more than these two. The
        usual tokens of forced text are nearly always what the model takes.
        """
        tokens = self._rules.vocabulary.encode_text(self._matcher.compute_ff_bytes())[:limit]
        return tokens[: self._matcher.validate_tokens(tokens)] if tokens else []

    def _note(self, token: int, choice: bool) -> None:
        """Follow the values that are being written; search on if a finished one will not do."""
        if self._back:
            self._back += 1  # the run goes on after the token that will be taken back
            return
        self._log.append((token, choice))
        self._values.feed(self._rules.vocabulary.pieces[token], len(self._log))
        if self._values.repeated:
            self._ended = True
            self._back = len(self._log) - self._values.began
        elif self._values.complaint is not None:
            self._search(self._values.complaint)

    def _search(self, complaint: str) -> None:
        """Go back to an earlier choice and ban what was chosen there."""
        log, start = self._log, self._values.began
        while self._tries < MAX_TRIES:
            choices = [at for at in range(start, len(log)) if log[at][1]]
            if not choices:
                break
            position = choices[-min(len(choices), 2 ** (self._tries // 2))]
            self._tries += 1
            banned = log[position][0]
            self._bans = {at: bans for at, bans in self._bans.items() if at <= position}
            self._bans.setdefault(position, set()).add(banned)
            self._restart(log[:position])
            self._back = len(log) - position
            try:
                self.mask()
            except ConstraintFailed:
                log = log[:position]  # nothing else can stand there: go on before it
                continue
            return
        raise ConstraintFailed(f"no value was found that satisfies {complaint}")


class _Values:
    """The values that a guided answer writes, checked when each is finished.

    `began` is the length of the log where the value at hand began.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._parser = rules.parser()
        self._answer = ValueTracker() if "" in rules.checks else None
        self._text = b""
        self._name: str | None = None
        self._arguments = ""
        self._made: list[tuple[str, str]] = []  # finished calls of the turn
        self.began = 0
        self.complaint: str | None = None
        self.repeated = False

    @property
    def digits(self) -> int:
        """Length of the run of digits at the end of what was read, outside strings."""
        return max(self._parser.digits, self._answer.digits if self._answer else 0)

    def held(self, length: int) -> int:
        """How many of the last tokens may still be taken back."""
        name = self._name if self._name is not None else "" if self._answer else None
        if name is None or not (self._rules.checks[name].needed or self._may_repeat()):
            return 0
        return length - self.began

    def _may_repeat(self) -> bool:
        """Whether the call at hand has so far said the same as an earlier one."""
        return any(
            name == self._name and arguments.startswith(self._arguments)
            for name, arguments in self._made
        )

    def feed(self, data: bytes, length: int) -> None:
        """Read the bytes of a token, with which the log has `length` entries."""
        for event in self._parser.feed(data):
            if isinstance(event, CallBegins):
                self._answer = None  # it is a call, then
                self._name, self._arguments, self.began = event.name, "", max(0, length - 1)
            elif isinstance(event, CallArguments):
                self._arguments += event.text
            elif isinstance(event, CallEnds) and self._name is not None:
                call = (self._name, self._arguments)
                self.repeated = call in self._made
                self.complaint = self._check(*call)
                self._made.append(call)
                self._name = None
        if self._answer and self._name is None:
            self._text += data
            if self._answer.feed(data) is not None:
                self.complaint = self._check("", self._text.decode("utf-8", "replace"))

    def _check(self, name: str, text: str) -> str | None:
        value: Any = json.loads(text)
        complaint = self._rules.checks[name].checker.complaint(value)
        return f"{complaint} of {name}" if complaint and name else complaint
