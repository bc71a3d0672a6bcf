"""Hypothesis for a time instead of a number of examples, and a model that says anything."""

from __future__ import annotations

import itertools
import random
import time
import zlib
from collections.abc import Callable
from typing import TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from tests.fakes import IM_END, TOOL_CALL, TOOL_CALL_END

T = TypeVar("T")
EXAMPLES = 25  # of one round; a round always ends
HANGS_S = 100.0  # no answer takes a second, but the machine may be busy

# What the model likes to say: pieces of calls, of JSON, and the end.
_LIKED = (
    *b'{"name": "look", "arguments": {"a": [1, 2.5e-3, true, null]}}',
    *"\n\\u00e9é <[\0".encode(),
    *b'""""""""}}}}]]]],,::{[',  # or else a text would seldom end
    *(TOOL_CALL, TOOL_CALL_END, IM_END, IM_END),
)


def noise(tokens: tuple[int, ...]) -> int:
    """A token that follows from what came before, and means nothing."""
    return int(_LIKED[zlib.crc32(repr(tokens[-24:]).encode()) % len(_LIKED)])


def fuzz(strategy: st.SearchStrategy[T], check: Callable[[T], None], seconds: float) -> int:
    """Check examples until the time is over, a round of them at least; how many there were.

    Each round has a seed of its own, which hypothesis names where one fails.
    """
    tried = 0
    deadline = time.monotonic() + seconds
    begin = random.randrange(2**32)
    for number in itertools.count(begin):

        @hypothesis.seed(number)
        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(strategy)
        def one_round(value: T) -> None:
            nonlocal tried
            tried += 1
            check(value)

        one_round()
        if time.monotonic() > deadline:
            return tried
    raise AssertionError("unreachable")
