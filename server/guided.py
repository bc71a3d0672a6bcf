"""The guided phase of a sequence: an answer that a grammar holds, and what to take back of it.

A keyword that the grammar does not enforce is checked on the finished value. If it fails, sampled
tokens are taken back, from the end and each time further, and what was chosen there is banned: a
search that is bounded, and deterministic where sampling is.

A call that says the same as an earlier one of the turn is taken back too and ends the turn: small
models repeat themselves to the token limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from server.engine.sampler import Allowed, Logits
from server.engine.vocabulary import Vocabulary
from server.errors import ConstraintFailed
from server.events import CallArguments, CallBegins
from server.lookup import TAIL, Lookup
from server.output import OutputParser
from server.payloads.choice import Parameters
from server.values import Check, Fault, Values

SPECIAL = re.compile(rb"\xff\[(\d+)\]")  # how llguidance writes special tokens among bytes
AFTER_NUMBER = b",]} \t\r\n"
MAX_TRIES = 64  # of one answer,
MAX_TAKEN_BACK = 4000  # and tokens that they may cost


class Matcher(Protocol):
    """What is used of llguidance's LLMatcher."""

    def deep_copy(self) -> Matcher: ...
    def consume_tokens(self, sampled_tokens: list[int]) -> bool: ...
    def try_consume_tokens(self, tokens: list[int]) -> int: ...
    def validate_tokens(self, tokens: list[int]) -> int: ...
    def compute_ff_tokens(self) -> list[int]: ...
    def compute_ff_bytes(self) -> bytes: ...
    def compute_bitmask(self) -> bytes: ...
    def is_accepting(self) -> bool: ...
    def is_stopped(self) -> bool: ...
    def is_error(self) -> bool: ...
    def get_error(self) -> str: ...


def allowed_next(matcher: Matcher, size: int) -> Allowed:
    """The tokens, of a vocabulary of `size`, that a grammar takes next."""
    bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
    return np.unpackbits(bits, bitorder="little", count=size).view(np.bool_)


@dataclass(frozen=True)
class Rules:
    """What is shared by all sequences of one compiled constraint.

    `matcher` is at its start; None: free text only. `free` is the mask of the free phase, None if
    the answer is guided from its first token. `triggers` are special tokens that open a call,
    `joints` those within the text that opens one. `openings` are patterns for that text, at the
    beginning of a line, `first_openings` of the answer. `digits` has the number of digits with
    which a token begins. `parser` makes a parser of calls; `parameters` and `checks` are by tool,
    "" for an answer in JSON. `text_opening` is the text with which an answer in words begins, if
    any. `openers` are the tokens with which a call may begin, where text may stand in its place;
    `goes_on` those that promise another call after one.
    """

    vocabulary: Vocabulary
    matcher: Matcher | None
    free: Allowed | None
    triggers: frozenset[int]
    joints: frozenset[int]
    openings: tuple[bytes, ...]
    first_openings: tuple[bytes, ...]
    digits: NDArray[np.uint8]
    parser: Callable[[], OutputParser]
    parameters: Mapping[str, Parameters]
    checks: Mapping[str, Check]
    text_opening: str
    openers: NDArray[np.int64]
    goes_on: NDArray[np.int64]


class Guided:
    """The guided phase, from `prefix`: tokens of an opening that the free phase has let through.

    `more_by` is added to the logits of what promises another call: small models end a list early,
    but how likely they find it to go on tells apart whether it should.
    """

    def __init__(
        self,
        rules: Rules,
        prefix: list[int],
        lookup: Lookup | None = None,
        more_by: float = 0.0,
    ) -> None:
        self._rules = rules
        self._more_by = more_by
        self._lookup = lookup
        self._prefix = prefix
        self._log: list[tuple[int, bool]] = []  # tokens, and whether they were a choice
        self._bans: dict[int, set[int]] = {}  # by position in the log
        self._tries: Counter[str] = Counter()  # by what was wrong
        self._taken_back = 0
        self._back = 0
        self._ended = False
        self._restart([])

    def _restart(self, log: Sequence[tuple[int, bool]]) -> None:
        """Set the state to what it is after `log`."""
        assert self._rules.matcher is not None
        self._matcher = self._rules.matcher.deep_copy()
        self._values = Values(self._rules.parser, self._rules.checks)
        self._log = []
        for token in self._prefix:
            self._consume(token)
            self._values.feed(self._rules.vocabulary.pieces[token], 0)
        for token, choice in log:
            self._consume(token)
            self._note(token, choice)

    def _consume(self, token: int) -> None:
        if not self._matcher.consume_tokens([token]):
            raise self._stuck()

    def _stuck(self) -> ConstraintFailed:
        """In the back end's words, without its state, which quotes the answer."""
        why = self._matcher.get_error().partition("\n")[0]
        return ConstraintFailed(f"the grammar is stuck: {why[:200]}")

    def weigh(self, logits: Logits) -> Logits:
        if not self._more_by or not self._values.between_calls:
            return logits
        biased = logits.copy()
        biased[self._rules.goes_on] += np.float32(self._more_by)
        return biased

    def forced(self) -> list[int]:
        if self._bans.get(len(self._log)):
            return []
        run = self._matcher.compute_ff_tokens()
        if run and not self._matcher.consume_tokens(run):
            raise self._stuck()
        closing = self._closing()
        for token in (*run, *closing):
            self._note(token, choice=False)
        return run + closing

    def _closing(self) -> list[int]:
        """The rest of the answer, if nothing is open but in which tokens it is written.

        Nobody sees these, and no other text depends on them: the model need not choose.
        """
        closing = self._usual()
        ahead = self._matcher.deep_copy() if closing else self._matcher
        if not closing or not ahead.consume_tokens(closing) or not ahead.is_stopped():
            return []
        self._matcher = ahead
        return closing

    def _usual(self) -> list[int]:
        """The usual tokens of the bytes that must come next."""
        tokens: list[int] = []
        for place, part in enumerate(SPECIAL.split(self._matcher.compute_ff_bytes())):
            tokens += [int(part)] if place % 2 else self._rules.vocabulary.encode_text(part)
        return tokens

    def allows(self, token: int) -> bool:
        if token in self._bans.get(len(self._log), ()):
            return False
        if self._rules.digits[token] > self._values.digits_left:
            return bool(self.mask()[token])
        return self._matcher.validate_tokens([token]) == 1

    def mask(self) -> Allowed:
        allowed = allowed_next(self._matcher, len(self._rules.vocabulary))
        if self._matcher.is_error():
            raise self._stuck()
        shorter = allowed & (self._rules.digits <= max(0, self._values.digits_left))
        allowed = shorter if shorter.any() else allowed
        for banned in self._bans.get(len(self._log), ()):
            allowed[banned] = False
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
        usual tokens of forced text are nearly always what the model takes. Where nothing must come,
        a word of the prompt may.
        """
        tokens = self._usual()
        if not tokens and self._lookup:
            tokens = self._lookup.guess([token for token, _ in self._log[-TAIL:]])
        tokens = tokens[:limit]
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
        elif self._values.fault is not None:
            self._search(self._values.fault)

    def _search(self, fault: Fault) -> None:
        """Go back to an earlier choice and ban what was chosen there.

        The choices before the end of what is wrong are tried, each time further back, and from the
        beginning again where that led nowhere; every fourth time those from its begin onwards,
        where a member may be missing.
        """
        log, began = list(self._log), self._values.began
        first, _ = self._written(fault.begin, fault)
        last, endings = self._completed(fault)
        choices = [at for at in range(began, last + 1) if log[at][1]]
        left = choices
        while choices and self._tries.total() < MAX_TRIES and self._taken_back < MAX_TAKEN_BACK:
            rounds, turn = divmod(self._tries[fault.why], 4)
            self._tries[fault.why] += 1
            steps = min(len(left), 2 ** (rounds % len(left).bit_length()))
            within = [at for at in left if at >= first]
            position = within[min(len(within), steps) - 1] if turn == 3 and within else left[-steps]
            if self._ban(log, position, endings if position == last else ()):
                self._back = len(log) - position
                self._taken_back += self._back
                return
            # Nothing else can stand there: go on before it.
            left = [at for at in left if at < position]
            if not left:
                left = choices
                self._bans = {at: bans for at, bans in self._bans.items() if at < began}
        raise ConstraintFailed(f"no value was found that satisfies {fault.why}")

    def _ban(
        self, log: Sequence[tuple[int, bool]], position: int, endings: tuple[bytes, ...]
    ) -> bool:
        """Return to a position and ban what was chosen there; False if that leaves nothing.

        `endings` are bytes that would make what is wrong complete: with what begins so.
        """
        pieces = self._rules.vocabulary.pieces
        banned = {log[position][0]}
        banned |= {token for token, piece in enumerate(pieces) if piece.startswith(endings)}
        self._bans = {at: bans for at, bans in self._bans.items() if at <= position}
        self._bans.setdefault(position, set()).update(banned)
        self._restart(log[:position])
        try:
            self.mask()
        except ConstraintFailed:
            return False
        return True

    def _completed(self, fault: Fault) -> tuple[int, tuple[bytes, ...]]:
        """The position of the token that made what is wrong complete, and the bytes that did.

        A number is complete with what follows it.
        """
        position, written = self._written(fault.end, fault)
        if not written or not fault.text[: fault.end][-1:].isdigit():
            return position, (written,) if written else ()
        if written == self._rules.vocabulary.pieces[self._log[position][0]]:
            position, written = position + 1, b""
        return position, tuple(written + bytes([byte]) for byte in AFTER_NUMBER)

    def _written(self, offset: int, fault: Fault) -> tuple[int, bytes]:
        """The position in the log of the token that wrote a value up to an offset.

        And what of its text is up to there.
        """
        began, pieces = self._values.began, self._rules.vocabulary.pieces
        written = b"".join(pieces[token] for token, _ in self._log[began:])
        start = written.rfind(fault.text)
        if start < 0:  # it was written in a notation that is no JSON
            return self._told(offset), b""
        offset += start
        length = 0
        for position, (token, _) in enumerate(self._log[began:], began):
            piece = pieces[token]
            if length + len(piece) >= offset:
                return position, piece[: offset - length]
            length += len(piece)
        return len(self._log) - 1, b""

    def _told(self, offset: int) -> int:
        """The position in the log of the token that made the arguments known up to an offset."""
        parser, pieces = self._rules.parser(), self._rules.vocabulary.pieces
        for token in self._prefix:
            parser.feed(pieces[token])
        length = 0
        for position, (token, _) in enumerate(self._log):
            for event in parser.feed(pieces[token]):
                if isinstance(event, CallArguments):
                    length += len(event.text.encode())
                elif isinstance(event, CallBegins):
                    length = 0
            if position >= self._values.began and length >= offset:
                return position
        return len(self._log) - 1
