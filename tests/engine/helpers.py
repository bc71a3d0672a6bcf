"""Prompts, small constraints, and an oracle for tests of the engine."""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from server.engine.engine import Engine, EngineOptions
from server.engine.generation import Generation
from server.engine.sampler import Allowed, Logits, Sampling
from server.engine.sequence import EndReason, Job, Sequence
from server.engine.timings import Timings
from server.engine.token_constraint import TokenConstraint, Unconstrained
from server.engine.vocabulary import Vocabulary
from server.errors import ConstraintFailed
from tests.fakes import IM_END, WAIT_S, ScriptedRunner, Scripts, byte_vocabulary

VOCABULARY = byte_vocabulary()
GREEDY = Sampling(temperature=0)


def prompt(text: str) -> list[int]:
    """Token ids of a question in ChatML, up to where the answer begins."""
    chat = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    return VOCABULARY.encode_prompt(chat, "\0")


class Free(Unconstrained):
    """Allows everything."""

    def mask(self) -> Allowed:
        return np.ones(len(VOCABULARY), np.bool_)


class Letters(Free):
    """Never lets the answer end."""

    def allows(self, token: int) -> bool:
        return token < 256

    def mask(self) -> Allowed:
        return np.arange(len(VOCABULARY)) < 256


class OneOf(Free):
    """The answer is one of some texts. What they have in common is forced."""

    def __init__(self, *texts: str) -> None:
        self._texts = [text.encode() for text in texts]
        self._said = b""

    def forced(self) -> list[int]:
        run: list[int] = []
        while len(following := self._following()) == 1 and self._said not in self._texts:
            run += following
            self._said += bytes(following)
        return run

    def allows(self, token: int) -> bool:
        return bool(self.mask()[token])

    def mask(self) -> Allowed:
        allowed = np.zeros(len(VOCABULARY), np.bool_)
        allowed[list(self._following())] = True
        allowed[IM_END] = self._said in self._texts
        return allowed

    def accept(self, token: int) -> None:
        if token not in self._following():
            raise ConstraintFailed(f"{token} after {self._said!r}")
        self._said += bytes([token])

    def finished(self) -> bool:
        return self._said in self._texts and not self._following()

    def _following(self) -> set[int]:
        at = len(self._said)
        return {text[at] for text in self._texts if text.startswith(self._said) and text[at:]}


class TakesBack(Free):
    """Wants to have the last `back` tokens anew when `complaint` has been said, the first of them
    then another one. What may be taken back is held.
    """

    def __init__(self, complaint: str, back: int) -> None:
        self._complaint = complaint.encode()
        self._back = back
        self._said: list[int] = []
        self._banned: dict[int, int] = {}  # by position
        self._taken = 0

    def allows(self, token: int) -> bool:
        return self._banned.get(len(self._said)) != token

    def mask(self) -> Allowed:
        allowed = super().mask()
        if len(self._said) in self._banned:
            allowed[self._banned[len(self._said)]] = False
        return allowed

    def accept(self, token: int) -> None:
        self._said.append(token)
        if not self._banned and VOCABULARY.decode(self._said).endswith(self._complaint):
            self._taken = self._back
            self._banned[len(self._said) - self._back] = self._said[-self._back]
            del self._said[-self._back :]

    def held(self) -> int:
        return 0 if self._banned else min(len(self._said), self._back)

    def take_back(self) -> int:
        taken, self._taken = self._taken, 0
        return taken


class Fails(Free):
    """Raises at the n-th call, counted from 0, of one of its methods."""

    def __init__(self, method: str, after: int = 0, error: Exception | None = None) -> None:
        self._method = method
        self._after = after
        self._error = error or ConstraintFailed("the grammar is stuck")

    def forced(self) -> list[int]:
        self._called("forced")
        return super().forced()

    def allows(self, token: int) -> bool:
        self._called("allows")
        return super().allows(token)

    def accept(self, token: int) -> None:
        self._called("accept")

    def finished(self) -> bool:
        self._called("finished")
        return False

    def held(self) -> int:
        self._called("held")
        return 0

    def take_back(self) -> int:
        self._called("take_back")
        return 0

    def likely(self, limit: int) -> list[int]:
        self._called("likely")
        return []

    def _called(self, method: str) -> None:
        if method == self._method:
            self._after -= 1
            if self._after < 0:
                raise self._error


def job(
    text: str,
    constraint: TokenConstraint | None = None,
    *,
    max_tokens: int = 100,
    sampling: Sampling = GREEDY,
) -> Job:
    return Job(prompt(text), constraint or Free(), sampling, max_tokens)


@dataclass(frozen=True)
class Output:
    """What a generation told."""

    tokens: list[int]
    end: EndReason
    timings: Timings = field(compare=False, default_factory=Timings)

    @property
    def text(self) -> str:
        return VOCABULARY.decode(self.tokens).decode("utf-8", "replace")


def alone(
    job: Job, logits_after: Callable[[list[int]], Logits], vocabulary: Vocabulary = VOCABULARY
) -> Output:
    """The oracle: what a job gives without batches, KV cells or cache. Uses up its constraint."""
    sequence = Sequence(job, tell=lambda update: None)
    end = sequence.force()
    while end is None:
        token = sequence.sampler.choose(logits_after(sequence.tokens), job.constraint)
        end = "stop" if token in vocabulary.end else sequence.append(token)
    return Output(sequence.tokens[len(job.prompt) :], end)


async def output(generation: Generation) -> Output:
    """All that a generation tells. Raises what it failed with."""
    tokens: list[int] = []
    async for update in generation.updates(timeout_s=WAIT_S):
        tokens += update.tokens
        if update.end is not None:
            assert update.timings is not None
            return Output(tokens, update.end, update.timings)
    raise AssertionError("no end was told")


async def run(engine: Engine, job: Job) -> Output:
    return await output(await engine.submit(job))


@contextlib.contextmanager
def serving(
    runner: ScriptedRunner,
    *,
    max_sequences: int = 4,
    queue_length: int = 64,
    draft_tokens: int = 0,
    cached_tokens: int = 4096,
    host_cache_tokens: int = 0,
) -> Iterator[Engine]:
    """A started engine that uses all sequences of the runner. At the end it is idle, and its books
    agree with the runner's.
    """
    options = EngineOptions(
        max_sequences=max_sequences,
        cached_sequences=runner.sequences - max_sequences,
        batch_tokens=runner.batch_tokens,
        queue_length=queue_length,
        draft_tokens=draft_tokens,
        cached_tokens=cached_tokens,
        host_cache_tokens=host_cache_tokens,
    )
    engine = Engine(runner, options)
    engine.start()
    try:
        yield engine
        wait_until_idle(engine)
        check_books(engine, runner)
    finally:
        engine.stop(grace_s=0)
    assert runner.closed
    assert all(thread.name != "engine" for thread in threading.enumerate())
    runner.check()
    assert not (isinstance(runner.say, Scripts) and runner.say.unused), runner.say.unused


def wait_until_idle(engine: Engine) -> None:
    deadline = time.monotonic() + WAIT_S
    while engine.load.running or engine.load.waiting:
        assert time.monotonic() < deadline, f"still {engine.load}"
        time.sleep(0.002)


def check_books(engine: Engine, runner: ScriptedRunner) -> None:
    """An idle engine knows what the runner holds, all of it is retired, and no slot is lost."""
    scheduler = engine._scheduler
    retired = scheduler.cache.retired
    assert engine.load.used_cells == runner.used_cells == scheduler.cache.cells_of(set(retired))
    for slot in retired:
        assert scheduler.cache.tokens(slot) == runner.held(slot)
    assert sorted([*scheduler._free_slots, *retired]) == list(range(runner.sequences))
    assert all(not runner.held(slot) for slot in scheduler._free_slots)


def rambling(tokens: tuple[int, ...]) -> int:
    """A model that has an answer to everything: letters that follow from all that came before."""
    number = zlib.crc32(np.array(tokens, np.int32).tobytes())
    return IM_END if number % 16 == 0 else ord("a") + number % 26
