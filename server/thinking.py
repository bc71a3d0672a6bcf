"""Thinking that comes before an answer: text between two tags, bounded, told apart from the rest.

`Thinking` is the constraint of a sequence that may think first, `ThinkingParser` the parser of its
bytes; both go on with those of the answer. Calls come after the thinking only: what looks like one
within is text.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from server.engine.sampler import Allowed, Logits
from server.engine.vocabulary import Vocabulary
from server.events import Event, FinishReason, Reasoning
from server.guide import Guide
from server.output import OutputParser
from server.payloads.reading import overlap

SPACES = 2  # tokens of white space before an answer that is held to a grammar

Start = Literal["inside", "possible"]
"""Whether an answer begins within the thinking, or may open it."""


@dataclass(frozen=True)
class Thoughts:
    """How a model thinks. `budget` is the number of tokens after which the thinking is closed.

    `opening` and `closing` are the tokens of the tags `opens` and `closes`. `allowed` are the
    tokens that the thinking may have, `spaces` those of white space.
    """

    start: Start
    opens: bytes
    closes: bytes
    opening: tuple[int, ...]
    closing: tuple[int, ...]
    budget: int
    vocabulary: Vocabulary
    allowed: Allowed
    spaces: Allowed


class ThoughtsMaker:
    """Reads the tags of a family in the words of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._masks = cache(self._make_masks)

    def make(self, tags: tuple[str, str], start: Start, budget: int) -> Thoughts | None:
        """None where thinking is only possible and its tag is no token: it might be text."""
        opening, closing = (self._tokens(tag) for tag in tags)
        if start == "possible" and (opening[0] not in self._vocabulary.special or not budget):
            return None
        allowed, spaces = self._masks(tags[1])
        return Thoughts(
            start=start,
            opens=tags[0].strip().encode(),
            closes=tags[1].strip().encode(),
            opening=opening,
            closing=closing,
            budget=budget,
            vocabulary=self._vocabulary,
            allowed=allowed,
            spaces=spaces,
        )

    def _tokens(self, tag: str) -> tuple[int, ...]:
        tokens: list[int] = []
        for part in self._vocabulary.split_special(tag.strip()):
            tokens += (
                [part] if isinstance(part, int) else self._vocabulary.encode_text(part.encode())
            )
        return tuple(tokens)

    def _make_masks(self, close: str) -> tuple[Allowed, Allowed]:
        vocabulary, closes = self._vocabulary, close.strip().encode()
        allowed = np.ones(len(vocabulary), np.bool_)
        allowed[list(vocabulary.special | vocabulary.end)] = False
        first = self._tokens(close)[0]
        if first in vocabulary.special:
            allowed[first] = True
        spaces = np.zeros(len(vocabulary), np.bool_)
        for token, piece in enumerate(vocabulary.pieces):
            if closes in piece and piece.partition(closes)[2].strip() and token != first:
                allowed[token] = False
            if piece and len(piece) <= 4 and not piece.strip(b" \n"):
                spaces[token] = True
        return allowed, spaces


class Thinking:
    """Implements the engine's TokenConstraint: thinks, then goes on with `answer`."""

    def __init__(self, answer: Guide, thoughts: Thoughts) -> None:
        self._answer = answer
        self._thoughts = thoughts
        self._state: Literal["before", "inside", "gap", "answer"] = (
            "inside" if thoughts.start == "inside" else "before"
        )
        self._tail = b""  # of the thinking, as far as it may be the beginning of the closing tag
        self._spaces = 0
        self._queue: list[int] = []  # what is left of a tag
        if self._state == "before" and answer.allows(thoughts.opening[0]):
            self._queue = list(thoughts.opening)  # a call or a text may begin in the same way
        self.tokens = 0  # of the thinking, with its tags

    @property
    def free(self) -> bool:
        """Whether what comes next may be any text of the answer."""
        return self._state == "answer" and self._answer.free

    def weigh(self, logits: Logits) -> Logits:
        return logits if self._state == "inside" else self._answer.weigh(logits)

    def forced(self) -> list[int]:
        if self._state == "answer":
            return self._answer.forced()
        run: list[int] = []
        if self._queue:
            run, self._queue = self._queue, []
            self._state = "inside" if self._state == "before" else "gap"
        if self._state == "inside" and self.tokens >= self._thoughts.budget:
            run += self._thoughts.closing
            self._state = "gap"
        self.tokens += len(run)
        return run

    def allows(self, token: int) -> bool:
        if self._state == "answer":
            return self._answer.allows(token)
        if self._state == "inside":
            return bool(self._thoughts.allowed[token]) and not self._overshoots(token)
        if self._state == "before" and token == self._thoughts.opening[0]:
            return True
        return self._may_be_space(token) or self._answer.allows(token)

    def mask(self) -> Allowed:
        if self._state == "answer":
            return self._answer.mask()
        if self._state == "inside":
            return self._inside_mask()
        allowed = self._answer.mask().copy()
        if self._spaces < SPACES:
            allowed |= self._thoughts.spaces
        if self._state == "before":
            allowed[self._thoughts.opening[0]] = True
        return allowed

    def accept(self, token: int) -> None:
        thoughts = self._thoughts
        if self._state == "answer":
            self._answer.accept(token)
        elif self._state == "inside":
            self._think(token)
        elif self._state == "before" and token == thoughts.opening[0]:
            self.tokens += 1
            self._queue = list(thoughts.opening[1:])
            self._state = "before" if self._queue else "inside"
        elif self._may_be_space(token):
            self._spaces += 1
        else:
            self._state = "answer"
            self._answer.accept(token)

    def finished(self) -> bool:
        return self._state == "answer" and self._answer.finished()

    def held(self) -> int:
        return self._answer.held() if self._state == "answer" else 0

    def take_back(self) -> int:
        return self._answer.take_back() if self._state == "answer" else 0

    def likely(self, limit: int) -> list[int]:
        return self._answer.likely(limit) if self._state == "answer" else []

    def _may_be_space(self, token: int) -> bool:
        return self._spaces < SPACES and bool(self._thoughts.spaces[token])

    def _think(self, token: int) -> None:
        thoughts = self._thoughts
        self.tokens += 1
        if token == thoughts.closing[0] and token in thoughts.vocabulary.special:
            self._queue = list(thoughts.closing[1:])
            self._state = "inside" if self._queue else "gap"
            return
        self._tail += thoughts.vocabulary.pieces[token]
        if thoughts.closes in self._tail:
            self._state = "gap"
        kept = overlap(self._tail, thoughts.closes)
        self._tail = self._tail[len(self._tail) - kept :]

    def _overshoots(self, token: int) -> bool:
        """Whether a token completes the closing tag and says more than white space after it."""
        text = self._tail + self._thoughts.vocabulary.pieces[token]
        _, closes, rest = text.partition(self._thoughts.closes)
        return bool(closes and rest.strip())

    def _inside_mask(self) -> Allowed:
        if not self._tail:
            return self._thoughts.allowed
        allowed = self._thoughts.allowed.copy()
        begins = [
            self._thoughts.closes[size:]
            for size in range(1, len(self._tail) + 1)
            if self._tail.endswith(self._thoughts.closes[:size])
        ]
        for token, piece in enumerate(self._thoughts.vocabulary.pieces):
            if any(piece.startswith(begin) for begin in begins) and self._overshoots(token):
                allowed[token] = False
        return allowed


class ThinkingParser:
    """Parses an answer that may think first; as `OutputParser` otherwise."""

    def __init__(self, answer: OutputParser, thoughts: Thoughts) -> None:
        self._answer = answer
        self._opens, self._closes = thoughts.opens, thoughts.closes
        self._state: Literal["before", "inside", "gap", "answer"] = (
            "inside" if thoughts.start == "inside" else "before"
        )
        self._held = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""  # white space that is shown if more thinking follows
        self._shown = False

    @property
    def thinking(self) -> bool:
        """Whether what comes next may be thinking."""
        return self._state in ("before", "inside")

    @property
    def stopped(self) -> bool:
        return self._answer.stopped

    @property
    def digits_left(self) -> int:
        return self._answer.digits_left

    def finish_reason(self, end: FinishReason) -> FinishReason:
        return self._answer.finish_reason(end)

    def feed(self, data: bytes) -> list[Event]:
        if self._state == "answer":
            return self._answer.feed(data)
        self._held += data
        events: list[Event] = []
        if self._state == "before":
            events += self._before()
        if self._state == "inside":
            events += self._inside()
        if self._state == "gap":
            self._held = self._held.lstrip(b" \n")
            if self._held:
                events += self._go_on()
        return events

    def end(self) -> list[Event]:
        events: list[Event] = []
        if self._state == "before":
            events += self._go_on()
        elif self._state == "inside" and not self._closes.startswith(self._held):
            events += self._reasoning(self._held)
        return [*events, *self._answer.end()]

    def _before(self) -> Sequence[Event]:
        text = self._held.lstrip()
        if text.startswith(self._opens):
            self._state, self._held = "inside", text[len(self._opens) :]
        elif not self._opens.startswith(text):
            return self._go_on()
        return ()

    def _inside(self) -> list[Event]:
        text, closes, rest = self._held.partition(self._closes)
        if closes:
            self._state, self._held = "gap", rest
        else:
            sure = len(text) - overlap(text, self._closes)
            text, self._held = text[:sure], text[sure:]
        return self._reasoning(text)

    def _go_on(self) -> list[Event]:
        self._state, data, self._held = "answer", self._held, b""
        return self._answer.feed(data)

    def _reasoning(self, data: bytes) -> list[Event]:
        """White space around all the thinking is not shown."""
        text = self._text + self._decoder.decode(data)
        if not self._shown:
            text = text.lstrip()
        shown = text.rstrip()
        self._text = text[len(shown) :]
        self._shown = self._shown or bool(shown)
        return [Reasoning(shown)] if shown else []
