"""Log-probabilities of output tokens: what the model itself thought of them.

They are of the model's own distribution: the softmax of its logits as they are, before biases,
penalties, the constraint's mask and temperature. So they say how likely the model found a token,
also one that the constraint forced or that a ban kept from being a better one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST = -9999.0  # in place of minus infinity, which JSON lacks; OpenAI has the same number

Logits = NDArray[np.float32]  # shape (vocabulary,)


@dataclass(frozen=True)
class Logprob:
    """A token and the natural logarithm of its probability."""

    token: int
    logprob: float


@dataclass(frozen=True)
class Score:
    """What is known of one output token: itself, and the most probable ones in its place."""

    chosen: Logprob
    top: tuple[Logprob, ...] = ()


def score(logits: Logits, token: int, top: int) -> Score:
    """The score of `token` among the logits of its position, with the `top` most probable tokens.

    Those are in falling order, equal ones by id.
    """
    peak = float(logits.max())
    total = peak + float(np.log(np.exp(logits - np.float32(peak), dtype=np.float64).sum()))

    def logprob(one: int) -> Logprob:
        return Logprob(one, max(float(logits[one]) - total, LEAST))

    return Score(logprob(token), tuple(logprob(int(one)) for one in _best(logits, top)))


def _best(logits: Logits, count: int) -> NDArray[np.int64]:
    """Ids of the `count` greatest logits, greatest first."""
    if count == 0:
        return np.empty(0, np.int64)
    count = min(count, len(logits))
    least = np.partition(logits, -count)[-count]
    found = np.flatnonzero(logits >= least)
    return found[np.argsort(-logits[found], kind="stable")][:count].astype(np.int64)
