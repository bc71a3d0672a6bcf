"""Prefixes whose KV cells were given up, kept in ordinary memory. Pure accounting.

Attention goes over all cells in use, whose ever they are, so idle ones slow every pass down; copied
out they cost memory only. Cells come back at the speed of memory, where a prefill takes a hundred
times as long (0.5B model, 2 cores: 2 ms against 7 s for 1,000 tokens).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.engine.prefix_cache import common_prefix

State = NDArray[np.uint8]  # shape (bytes,)


@dataclass(frozen=True, eq=False)
class Kept:
    """The cells of `tokens`, as llama.cpp writes those of a sequence."""

    tokens: list[int]
    state: State


class HostCache:
    """Prefixes of at most `capacity` tokens together; the least recently used go first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._kept: list[Kept] = []  # in order of use, oldest first

    @property
    def used_tokens(self) -> int:
        return sum(len(kept.tokens) for kept in self._kept)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """All of them, least recently used first."""
        return tuple(self._kept)

    def match(self, tokens: Sequence[int], room: int) -> tuple[Kept, int] | None:
        """Which shares the longest prefix with `tokens`, and how long it is; None if none does.

        Of equal ones the last used, since all conversations with a model begin alike.
        They come back whole, so only those count that `room` cells can hold beside the rest of
        `tokens`.
        """
        best, length = None, 0
        for kept in self._kept:
            common = common_prefix(kept.tokens, tokens)
            if common >= max(1, length) and len(kept.tokens) + len(tokens) - common <= room:
                best, length = kept, common
        return None if best is None else (best, length)

    def touch(self, kept: Kept) -> None:
        """It was used."""
        self._kept.remove(kept)
        self._kept.append(kept)

    def covers(self, tokens: Sequence[int]) -> bool:
        """Whether all these tokens are the beginning of something kept."""
        return any(common_prefix(kept.tokens, tokens) == len(tokens) for kept in self._kept)

    def has_room(self, tokens: Sequence[int], beside: int) -> bool:
        """Whether these could be kept, and with them all others, or at least `beside` of them."""
        room, others = self.capacity - len(tokens), 0
        for kept in reversed(self._kept):
            room -= len(kept.tokens)
            if room < 0:
                break
            others += 1
        return self.covers(tokens) or (
            len(tokens) <= self.capacity and others >= min(beside, len(self._kept))
        )

    def put(self, kept: Kept) -> None:
        """Keep it, instead of what is only a prefix of it, unless it is too large."""
        if len(kept.tokens) > self.capacity:
            return
        self._kept = [
            old for old in self._kept if common_prefix(old.tokens, kept.tokens) < len(old.tokens)
        ]
        self._kept.append(kept)
        while self.used_tokens > self.capacity:
            del self._kept[0]
