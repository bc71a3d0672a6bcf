"""A bias between calling a tool and answering in words, where the model may do either.

Small models call whatever tool they are offered, but how likely they find it tells apart whether
one fits. So the tokens with which a call may begin get a bias, until the answer has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from server.engine.sampler import Allowed, Logits
from server.engine.vocabulary import Vocabulary

SPACE = b" \t\r\n"


class Openers:
    """Finds the tokens with which a call may begin, in the words of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._pieces = vocabulary.pieces
        self.beginning_with = cache(self._beginning_with)
        ids = {piece: token for token, piece in enumerate(vocabulary.pieces)}
        self._indented, self._bare = _table(
            [
                (token, ids[bare])
                for token, piece in enumerate(vocabulary.pieces)
                if piece[:1] in SPACE and (bare := piece.lstrip(SPACE)) and bare in ids
            ]
        )

    def of(self, first: Allowed) -> NDArray[np.int64]:
        """Their ids; `first` are those with which the grammar of calls begins.

        Text may have white space before a call, and so may its first token.
        """
        opens = first.copy()
        opens[self._indented] = first[self._bare]
        return np.flatnonzero(opens).astype(np.int64)

    def _beginning_with(self, texts: tuple[bytes, ...]) -> NDArray[np.int64]:
        """The ids of tokens that begin with one of some texts. Few rows have any."""
        if not texts:
            return np.empty(0, np.int64)
        return np.flatnonzero([piece.startswith(texts) for piece in self._pieces]).astype(np.int64)


def _table(pairs: Sequence[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@dataclass(frozen=True)
class Leaning:
    """What the model itself thought where its answer began.

    `call_logprob` is the log-probability of all openings of a call together, `call_margin` by how
    much the logit of the best of them is above that of the best other token, with `fit_margin`:
    without temperature it takes a bias below `-call_margin` to prevent a call. `fit_margin` is what
    was found out of how well the tools fit (`server/fit.py`), 0 if that was not asked.
    """

    call_logprob: float
    call_margin: float
    fit_margin: float


class CallBias:
    """The bias of one answer; used by the engine's thread.

    `by` is added to the logits of the tokens `openers`, before temperature, and `fit` how well the
    tools fit. White space does not begin an answer. `leaning` is None until logits
    were seen; `prevented`: the model's favourite was to call, and because of the bias it began with
    something else.
    """

    def __init__(self, openers: NDArray[np.int64], by: float, fit: float = 0.0) -> None:
        self._openers = openers
        self._by = by
        self._fit = fit
        self._begun = False
        self._wants_call = False
        self.leaning: Leaning | None = None
        self.prevented = False

    @property
    def by(self) -> float:
        return self._by

    def weigh(self, logits: Logits) -> Logits:
        """The logits with the bias, in a copy, as long as the answer has not begun."""
        if self._begun:
            return logits
        biased = logits.copy()
        biased[self._openers] = -np.inf
        best = np.float32(logits.max())
        best_call = logits[self._openers].max(initial=-np.inf)
        calls, others = (
            np.exp(some - best, dtype=np.float64).sum() for some in (logits[self._openers], biased)
        )
        margin = float(best_call - biased.max())
        self.leaning = Leaning(
            call_logprob=float(np.log(max(calls, 1e-300) / (calls + others))),
            call_margin=margin + self._fit,
            fit_margin=self._fit,
        )
        self._wants_call = margin > 0
        biased[self._openers] = logits[self._openers] + np.float32(self._by + self._fit)
        return biased

    def accept(self, token: int, piece: bytes) -> None:
        if self._begun or piece.isspace():
            return
        self._begun = True
        lowered = self._by + self._fit < 0
        self.prevented = lowered and self._wants_call and token not in self._openers
