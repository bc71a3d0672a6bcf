"""With `in_order`, the cells of a sequence lie one after another, whatever came and went before.

Where they lie is told by a model of llama.cpp's allocation: a new token takes the lowest free cell
from the last one written on, or from the lowest that was freed since, if that is lower.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from server.engine.engine import Engine, EngineOptions
from server.engine.runner import BatchItem
from server.engine.sequence import Job
from tests.engine.helpers import GREEDY, Free, prompt, run
from tests.fakes import ScriptedRunner, Scripts

ANSWER = "an answer of some length"


class Placed(ScriptedRunner):
    """Knows in which cell each token lies, and whether a sequence's ever went backwards."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Scripts({"list": ANSWER}), **options)
        self._at: dict[int, tuple[int, Any]] = {}  # by the identity of a cell, which it keeps alive
        self._head = 0
        self.backwards = 0
        self.restored = 0

    def decode(self, items: Sequence[BatchItem]) -> None:
        super().decode(items)
        self._place([self._cells[item.sequence_id][item.position] for item in items])
        for sequence_id in {item.sequence_id for item in items}:
            places = [self._at[id(cell)][0] for cell in self._cells[sequence_id]]
            self.backwards += places != sorted(places)

    def restore_sequence(self, sequence_id: int, state: NDArray[np.uint8]) -> bool:
        restored = super().restore_sequence(sequence_id, state)
        self._place(self._cells[sequence_id])
        self.restored += restored
        return restored

    def _place(self, cells: list[Any]) -> None:
        taken = {place for place, _ in self._at.values()}
        for cell in cells:
            while self._head in taken:
                self._head = (self._head + 1) % self.context_length
            self._at[id(cell)] = (self._head, cell)
            taken.add(self._head)

    def cut(self, sequence_id: int, length: int) -> None:
        super().cut(sequence_id, length)
        used = {id(cell) for cells in self._cells.values() for cell in cells}
        freed = [self._at.pop(name)[0] for name in set(self._at) - used]
        self._head = min(freed, default=self._head) if freed else self._head
        if freed and not self._at:
            self._head = 0


class Guesses(Free):
    """Drafts the next token, and a wrong one after it."""

    def __init__(self) -> None:
        self._said = 0

    def accept(self, token: int) -> None:
        self._said += 1

    def likely(self, limit: int) -> list[int]:
        return [*ANSWER[self._said : self._said + 1].encode(), 0][:limit]


async def served(*, in_order: bool, at_once: int, host_cache_tokens: int = 0) -> Placed:
    """Forty requests of some conversations, so many at a time, some of which leave early."""
    runner = Placed(context_length=2000, sequences=14)
    options = EngineOptions(
        max_sequences=4, cached_sequences=10, cached_tokens=300, batch_tokens=64, draft_tokens=2,
        host_cache_tokens=host_cache_tokens, in_order=in_order,
    )  # fmt: skip
    engine = Engine(runner, options)
    engine.start()
    chance = random.Random(at_once)
    room = asyncio.Semaphore(at_once)

    async def ask(number: int) -> None:
        text = f"list {number % 3} " * 5 + "?" * chance.randrange(20)
        async with room:
            asked = Job(prompt(text), Guesses(), GREEDY, chance.randrange(1, 40))
            if number % 7 == 0:
                (await engine.submit(asked)).cancel()
            else:
                await run(engine, asked)

    try:
        await asyncio.gather(*(ask(number) for number in range(40)))
    finally:
        engine.stop(grace_s=0)
    runner.check()
    return runner


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("host_cache_tokens", [0, 100_000])
async def test_no_sequence_goes_back_to_a_lower_cell(at_once: int, host_cache_tokens: int) -> None:
    runner = await served(in_order=True, at_once=at_once, host_cache_tokens=host_cache_tokens)
    assert runner.backwards == 0
    assert (runner.restored > 0) == (host_cache_tokens > 0)


async def test_without_it_some_do() -> None:
    assert (await served(in_order=False, at_once=4)).backwards > 0
