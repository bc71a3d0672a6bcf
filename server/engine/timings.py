"""Where the time of a request goes, and the clock on what it asks of its constraint."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ParamSpec, Protocol, TypeVar

from server.engine.sampler import Allowed, Logits

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Timings:
    """Where the time of a request went: seconds, tokens and forward passes.

    `compile_s` is what its constraint took to be compiled, before it was submitted.
    `first_token_s` is from its submission until the model had chosen a token, so that it has the
    queue and the prefill in it: what is forced before that is known without the model. If all of
    it is forced, until its end; 0 where nothing was chosen. `model_s` is the time of the forward
    passes that it took part in, shared or not; `constraint_s` that of asking its constraint.
    `prompt_tokens` and `cached_tokens` are as it was admitted, `prefilled_tokens` what was decoded:
    more than the rest of the prompt if it was paused.
    """

    submitted: float = field(default_factory=time.perf_counter)
    compile_s: float = 0.0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float = 0.0
    model_s: float = 0.0
    constraint_s: float = 0.0
    total_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefilled_tokens: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    output_tokens: int = 0
    forward_passes: int = 0

    def continued(self) -> Timings:
        """For a further job of the same request: what is of each answer begins anew."""
        decoded = self.prefilled_tokens + self.forced_tokens
        return replace(
            self,
            first_token_s=0.0,
            total_s=0.0,
            output_tokens=0,
            forced_tokens=0,
            prefilled_tokens=decoded,
        )


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
