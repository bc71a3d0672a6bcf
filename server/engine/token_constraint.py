"""What the engine asks of a constraint, a beginning for simple ones, and a clock on any."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from server.engine.sampler import Allowed, Logits
from server.engine.timings import Timings

P = ParamSpec("P")
T = TypeVar("T")


class TokenConstraint(Protocol):
    """Which tokens may come next. One per sequence; used by the engine's thread alone.

    `weigh` gives the logits of the next token as they are to be sampled from, those that came where
    it changes nothing. `allows` and `mask` speak of the next token, `forced` of a run of tokens
    that leaves no choice (it counts them as accepted), `accept` moves on by a sampled one.
    `finished`: nothing may follow but the end. `take_back`, asked once after either, is how many of
    the last tokens turned out wrong and are to be generated anew; `held` how many may yet turn out
    so, and must not be told. `likely` are at most `limit` tokens that will probably come next;
    nothing changes. Raises ConstraintFailed if the grammar is stuck.
    """

    def weigh(self, logits: Logits) -> Logits: ...
    def forced(self) -> list[int]: ...
    def allows(self, token: int) -> bool: ...
    def mask(self) -> Allowed: ...
    def accept(self, token: int) -> None: ...
    def finished(self) -> bool: ...
    def held(self) -> int: ...
    def take_back(self) -> int: ...
    def likely(self, limit: int) -> list[int]: ...


class Unconstrained(ABC):
    """A TokenConstraint that allows everything and never ends; others say where they differ."""

    def weigh(self, logits: Logits) -> Logits:
        return logits

    def forced(self) -> list[int]:
        return []

    def allows(self, token: int) -> bool:
        return True

    @abstractmethod
    def mask(self) -> Allowed: ...

    def accept(self, token: int) -> None:
        return None

    def finished(self) -> bool:
        return False

    def held(self) -> int:
        return 0

    def take_back(self) -> int:
        return 0

    def likely(self, limit: int) -> list[int]:
        return []


class TimedConstraint:
    """A TokenConstraint whose time is counted."""

    def __init__(self, inner: TokenConstraint, timings: Timings) -> None:
        self._inner = inner
        self._timings = timings

    def weigh(self, logits: Logits) -> Logits:
        return self._timed(self._inner.weigh, logits)

    def forced(self) -> list[int]:
        return self._timed(self._inner.forced)

    def allows(self, token: int) -> bool:
        return self._timed(self._inner.allows, token)

    def mask(self) -> Allowed:
        return self._timed(self._inner.mask)

    def accept(self, token: int) -> None:
        self._timed(self._inner.accept, token)

    def finished(self) -> bool:
        return self._timed(self._inner.finished)

    def held(self) -> int:
        return self._timed(self._inner.held)

    def take_back(self) -> int:
        return self._timed(self._inner.take_back)

    def likely(self, limit: int) -> list[int]:
        return self._timed(self._inner.likely, limit)

    def _timed(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        began = time.perf_counter()
        try:
            return ask(*args, **kwargs)
        finally:
            self._timings.constraint_s += time.perf_counter() - began
