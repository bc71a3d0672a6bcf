"""Drives a constraint as the engine does, with a model that chooses tokens in its own way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, Literal

import numpy as np
import regex
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from server.constraint import Constraint
from server.engine.sampler import Allowed, Sampling
from server.engine.sequence import EndReason, Job
from server.engine.sequence import Sequence as EngineSequence
from server.engine.vocabulary import Vocabulary
from server.errors import ConstraintFailed
from server.events import CallArguments, CallBegins, CallEnds, Event, Reasoning, Text
from server.plan import Callee
from tests.fakes import byte_vocabulary

MERGED = (
    *(
        '", "',
        '": "',
        '": ',
        '{"',
        '"}',
        '"}}',
        '"}}\n',
        '"]',
        '], "',
        '": {"',
        '": ["',
        "}\n",
        "}}",
    ),
    *("name", "arguments", ", ", '",\n', "10", "123", "0", ".5", "true", "null", "ab", "é", "```"),
    *("\n", "\n\n", "json", "```json\n", ' {"', '{"name', "<tool", "_call>", "\n```", '{"name": "'),
    *(": {", ": [", ', "', "[]", "{}", '""', ' "', "e", "-", "2024-", " the", "\\n", "\\"),
)

Choose = Callable[[Allowed], int]


def merged_vocabulary() -> Vocabulary:
    """The byte vocabulary with tokens of several bytes, as they cut across the parts of JSON."""
    base = byte_vocabulary()
    texts = [text.encode() for text in MERGED if len(text.encode()) > 1]
    pieces = (*base.pieces, *texts)
    longest = sorted(range(len(base), len(pieces)), key=lambda token: -len(pieces[token]))

    def encode(text: bytes) -> list[int]:
        tokens: list[int] = []
        while text:
            token = next((t for t in longest if text.startswith(pieces[t])), text[0])
            tokens.append(token)
            text = text[len(pieces[token]) :]
        return tokens

    return Vocabulary(
        pieces=pieces,
        control=base.control,
        special=base.special,
        end=base.end,
        eos=base.eos,
        bos=None,
        encode=encode,
    )


def any_token(random: Random, vocabulary: Vocabulary, hurry_after: int) -> Choose:
    """Any allowed token; after a while with a preference for what brings a value to its end."""
    closing = np.array([piece.strip(b'"}]\n') == b"" != piece for piece in vocabulary.pieces])
    closing[list(vocabulary.end)] = True
    count = 0

    def choose(allowed: Allowed) -> int:
        nonlocal count
        count += 1
        among = allowed
        if count > hurry_after and random.random() < 0.8 and (allowed & closing).any():
            among = allowed & closing
        return int(random.choice(np.flatnonzero(among).tolist()))

    return choose


@dataclass(frozen=True)
class Driven:
    """What came of it: the tokens in the order they were told, and how it ended."""

    tokens: tuple[int, ...]
    end: EndReason
    events: tuple[Event, ...]
    taken_back: int


def drive(
    constraint: Constraint, vocabulary: Vocabulary, choose: Choose, *, max_tokens: int
) -> Driven:
    """Raises what the constraint raises. Fails if something is taken back that was told."""
    guide = constraint.guide()
    job = Job([0], guide, Sampling(), max_tokens)
    sequence = EngineSequence(job, lambda update: None)
    told: list[int] = []
    taken_back = 0
    end = sequence.force()
    while end is None:
        told += sequence.news(everything=False)
        token = choose(guide.mask())
        if not guide.allows(token):
            continue
        if token in vocabulary.end:
            end = "stop"
            break
        before = len(sequence.tokens)
        end = sequence.append(token)
        taken_back += max(0, before + 1 - len(sequence.tokens))
        assert len(sequence.tokens) >= 1 + len(told), "what was told is taken back"
    told += sequence.news(everything=True)
    assert told == sequence.tokens[1:]
    parser = constraint.parser(new_id=lambda: "abcdefghi", stops=())
    events = [*parser.feed(vocabulary.decode(told)), *parser.end()]
    return Driven(tuple(told), end, tuple(events), taken_back)


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not regex.search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _multiple_of(
    validator: Any, step: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(step)):
        yield ValidationError(f"{instance!r} is no multiple of {step!r}")


# jsonschema's own pattern knows no \\p{…}, its own multipleOf rounds: to it, 0.3 is none of 0.1.
_Independent: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": _pattern, "multipleOf": _multiple_of}
)


@dataclass(frozen=True)
class Folded:
    """Events as a client sees them. `calls` are names and arguments, `done` how many ended."""

    text: str
    calls: tuple[tuple[str, str], ...]
    done: int


def fold(events: Sequence[Event]) -> Folded:
    text, done = "", 0
    calls: list[tuple[str, str]] = []
    for event in events:
        match event:
            case Text(piece) | Reasoning(piece):
                text += piece
            case CallBegins(index, _, name):
                assert index == len(calls)
                calls.append((name, ""))
            case CallArguments(index, piece):
                name, arguments = calls[index]
                calls[index] = (name, arguments + piece)
            case CallEnds(index):
                assert index == done
                done += 1
    return Folded(text, tuple(calls), done)


def assert_satisfies(arguments: str, schema: dict[str, Any]) -> None:
    """The arguments parse, say no name twice and satisfy the schema, by jsonschema itself."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), f"a name comes twice in {arguments}"
        return dict(pairs)

    value = json.loads(arguments, object_pairs_hook=members)
    errors = list(_Independent(schema).iter_errors(value))
    assert not errors, f"{arguments} breaks {errors[0].message} of {schema}"


def assert_calls_hold(driven: Driven, tools: Sequence[Callee]) -> None:
    """Every finished call names an offered tool and satisfies its schema."""
    folded = fold(driven.events)
    schemas = {tool.name: tool.parameters for tool in tools}
    for name, arguments in folded.calls[: folded.done]:
        assert name in schemas
        assert_satisfies(arguments, schemas[name])
    if driven.end == "stop":
        assert folded.done == len(folded.calls)


Verdict = Literal["accepted", "grammar", "check", "late"]


def verdict(constraint: Constraint, vocabulary: Vocabulary, text: str) -> Verdict:
    """What becomes of an answer that a model wants to write: who stops it, if anyone does.

    "late" is a check that fails after the answer was told, which must not be needed.
    """
    guide = constraint.guide()
    parts = vocabulary.split_special(text)
    for part in parts:
        tokens = [part] if isinstance(part, int) else vocabulary.encode_text(part.encode())
        for token in tokens:
            if not guide.allows(token):
                return "grammar"
            try:
                guide.accept(token)
            except ConstraintFailed as exc:
                return "late" if "breaks" in exc.message else "check"
            if guide.take_back():
                return "check"
    return "accepted" if guide.finished() or guide.allows(vocabulary.eos) else "grammar"


class NotWritten(AssertionError):
    """The constraint does not let a text be written."""


Part = bytes | int
"""A piece of text, in any tokens, or a special token."""


class Writer:
    """Writes parts with a constraint, in tokens that are chosen at random."""

    def __init__(self, constraint: Constraint, vocabulary: Vocabulary, random: Random) -> None:
        self._guide = constraint.guide()
        self._vocabulary = vocabulary
        self._random = random
        self._plain = [t for t in range(len(vocabulary)) if t not in vocabulary.special]
        self._parts: list[Part] = []
        self.tokens: list[int] = []

    def write(self, parts: Sequence[Part]) -> bytes:
        """The bytes of all parts, once they are written. Raises NotWritten."""
        self._parts = [part for part in parts if part != b""]
        while True:
            for token in self._guide.forced():
                self._take(token)
            if not self._parts:
                break
            token = self._choose(self._parts[0])
            self._guide.accept(token)
            self._take(token)
            if self._guide.take_back():
                raise NotWritten(f"{self._so_far} is taken back")
        if not self._guide.finished() and not self._guide.allows(self._vocabulary.eos):
            raise NotWritten(f"{self._so_far} is not enough")
        return self._vocabulary.decode(self.tokens)

    @property
    def _so_far(self) -> str:
        return repr(self._vocabulary.decode(self.tokens))

    def _choose(self, part: Part) -> int:
        """A token that goes on with a part. It is asked for as the sampler does."""
        pieces = self._vocabulary.pieces
        if isinstance(part, int):
            candidates = [part]
        else:
            candidates = [token for token in self._plain if part.startswith(pieces[token])]
        self._random.shuffle(candidates)
        for token in candidates:
            if self._guide.allows(token) and self._guide.mask()[token]:
                return token
        raise NotWritten(f"after {self._so_far}: {part!r}")

    def _take(self, token: int) -> None:
        """Count a token as written."""
        self.tokens.append(token)
        part = self._parts.pop(0) if self._parts else b""
        if part == token:
            return
        piece = self._vocabulary.pieces[token]
        if isinstance(part, int) or not part.startswith(piece):
            raise NotWritten(f"{self._so_far} is forced")
        if part != piece:
            self._parts.insert(0, part[len(piece) :])


def parse(constraint: Constraint, data: bytes, sizes: Iterator[int]) -> list[Event]:
    """The events of an answer that comes in pieces of these sizes."""
    parser = constraint.parser(new_id=lambda: "abcdefghi", stops=())
    events: list[Event] = []
    while data:
        size = next(sizes)
        events += parser.feed(data[:size])
        data = data[size:]
    return [*events, *parser.end()]
