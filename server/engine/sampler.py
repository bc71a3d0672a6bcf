"""Choosing the next token from logits. Pure numpy, one object per sequence.

Order of the steps: logit bias, penalties, the constraint's weighing and mask, temperature, then the
cuts on the tempered probabilities (llama.cpp's own chain tempers last): top_k, of its share top_p,
and min_p.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from server.errors import ConstraintFailed

MASK_TRIES = 16
LEAST_SCALE = 1e-6  # of logits: with a smaller one nothing changes but that they overflow

Logits = NDArray[np.float32]  # shape (vocabulary,)
Allowed = NDArray[np.bool_]  # shape (vocabulary,)


@dataclass(frozen=True)
class Sampling:
    """How to sample. temperature 0 is greedy; top_k 0, top_p 1, min_p 0 cut nothing.

    `repeat_penalty` divides positive and multiplies negative logits of tokens seen so far;
    `frequency_penalty` and `presence_penalty` are OpenAI's, counted over generated tokens.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def of_choice(self, index: int) -> Sampling:
        """The same for one of several answers: the seed of the first, and others made from it."""
        if self.seed is None or index == 0:
            return self
        made = np.random.SeedSequence(self.seed, spawn_key=(index,))
        return replace(self, seed=int(made.generate_state(1, np.uint64)[0]))

    @property
    def cuts(self) -> bool:
        """Whether top_k, top_p or min_p can drop a token."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


class Mask(Protocol):
    """What the sampler asks of a constraint."""

    def weigh(self, logits: Logits) -> Logits: ...
    def allows(self, token: int) -> bool: ...
    def mask(self) -> Allowed: ...


class Sampler:
    """Samples the tokens of one sequence."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._random = np.random.default_rng(sampling.seed)
        self._seen: Counter[int] = Counter()

    def choose(self, logits: Logits, constraint: Mask) -> int:
        """The next token; `logits` is left as it is.

        Lazy mask: the free choice is tried first, and the mask computed only when the constraint
        refuses it. Drawing again under the mask then gives exactly the renormalised distribution.
        With cuts the two would differ (they depend on what else is there), so the mask comes first.
        """
        logits = constraint.weigh(self._adjusted(logits))
        if not self._sampling.cuts or self._sampling.temperature == 0:
            token = self._draw(logits)
            if constraint.allows(token):
                return token
        for _ in range(MASK_TRIES):
            # A constraint may find only then that a token which it let through will not do.
            token = self._draw(np.where(constraint.mask(), logits, -np.inf))
            if constraint.allows(token):
                return token
        raise ConstraintFailed("no token was found that the constraint allows")

    def count(self, tokens: Iterable[int], by: int = 1) -> None:
        """Count generated tokens, sampled or forced, for the penalties; -1 if taken back."""
        for token in tokens:
            self._seen[token] += by

    def _adjusted(self, logits: Logits) -> Logits:
        sampling = self._sampling
        penalised = self._seen.total() and (
            sampling.frequency_penalty or sampling.presence_penalty or sampling.repeat_penalty != 1
        )
        if not penalised and not sampling.logit_bias:
            return logits
        logits = logits.copy()
        for token, bias in sampling.logit_bias.items():
            logits[token] += bias
        if penalised:
            seen = +self._seen
            tokens = np.fromiter(seen.keys(), np.int64)
            counts = np.fromiter(seen.values(), np.float32)
            values = logits[tokens]
            scale = np.float32(max(sampling.repeat_penalty, LEAST_SCALE))
            values = np.where(values > 0, values / scale, values * scale)
            values -= counts * sampling.frequency_penalty + sampling.presence_penalty
            logits[tokens] = values
        return logits

    def _draw(self, logits: Logits) -> int:
        sampling = self._sampling
        if sampling.temperature == 0:
            return int(logits.argmax())
        scaled = (logits - logits.max()) / np.float32(max(sampling.temperature, 1e-4))
        weights = np.exp(scaled, dtype=np.float64)
        if not sampling.cuts:
            return self._pick(weights.cumsum())
        kept = self._cut(weights)
        return int(kept[self._pick(weights[kept].cumsum())])

    def _pick(self, cumulated: NDArray[np.float64]) -> int:
        # Below the total, also rounded: a token without weight cannot be met.
        point = self._random.random() * cumulated[-1]
        return int(cumulated.searchsorted(point, side="right"))

    def _cut(self, weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Ids of the tokens that the cuts keep, most probable first. The best weight is 1."""
        sampling = self._sampling
        if 0 < sampling.top_k < len(weights):
            kept = np.argpartition(weights, -sampling.top_k)[-sampling.top_k :]
            total = weights[kept].sum()
        else:
            total = weights.sum()
            # Tokens below this weight are no part of the nucleus whatever their order: all of them
            # together weigh less than 1 - top_p. It saves sorting the whole vocabulary.
            kept = np.flatnonzero(weights >= (1 - sampling.top_p) * total / len(weights))
        kept = kept[weights[kept] >= sampling.min_p]
        kept = kept[np.argsort(-weights[kept], kind="stable")]
        if sampling.top_p < 1:
            kept = kept[: int(weights[kept].cumsum().searchsorted(sampling.top_p * total)) + 1]
        return kept.astype(np.int64)
