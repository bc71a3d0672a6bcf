"""Which bias of calls against text separates questions that a tool fits from those it does not.

Pure. A margin is by how much a model's best token that opens a call is above its best other token,
as the server tells it; so a bias of minus a margin is where that question turns, at temperature 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prompts.bench.statistics import Share, share


@dataclass(frozen=True)
class Seen:
    """Where the answer to a case begins: whether a call is needed, and the margin of one."""

    case: str
    needed: bool
    margin: float


@dataclass(frozen=True)
class Proposal:
    """A bias, and what it does to the cases that it was found on.

    `auc` is the chance that a case which needs a call has a greater margin than one which does not,
    over all pairs. `kept` of the needed calls begin in spite of the bias, `refused` of the needless
    ones do not; `before` says the same of the needless ones without it.
    """

    bias: float
    auc: float
    kept: Share
    refused: Share
    before: Share


def propose(seen: Sequence[Seen], keep: float) -> Proposal | None:
    """The least bias with which a share `keep` of the needed calls begins; None without both kinds.

    It lies in the middle between the last margin that it keeps and the next one.
    """
    needed = _sorted([one.margin for one in seen if one.needed])
    needless = _sorted([one.margin for one in seen if not one.needed])
    if not len(needed) or not len(needless):
        return None
    kept = math.ceil(round(keep * len(needed), 9))
    last = needed[-kept]
    below = [one for one in (*needed, *needless) if one < last]
    # Upwards: rounding must not give up the one that is kept last.
    bias = math.ceil(-(last + max(below, default=last - 1)) * 50) / 100
    return Proposal(
        bias=bias,
        auc=_auc(needed, needless),
        kept=share([bool(one + bias > 0) for one in needed]),
        refused=share([bool(one + bias <= 0) for one in needless]),
        before=share([bool(one <= 0) for one in needless]),
    )


def _sorted(margins: Sequence[float]) -> NDArray[np.float64]:
    return np.sort(np.array(margins, np.float64))


def _auc(needed: NDArray[np.float64], needless: NDArray[np.float64]) -> float:
    """Both sorted; an equal margin counts half."""
    below = needless.searchsorted(needed, side="left")
    same = needless.searchsorted(needed, side="right") - below
    return float((below + same / 2).sum() / (len(needed) * len(needless)))
