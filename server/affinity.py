"""Affinity: how much likelier the tools in the prompt make what the user asks.

log P(last words | prompt) - log P(last words | prompt without tools), in nats: the pointwise mutual
information of words and tools. What the tools are for, they foretell; a question that has nothing
to do with them is as surprising with them as without. It takes a prefill of the words without the
tools; with them, it is the answer's own. Measured (Qwen2.5-Coder-0.5B, BFCL): see README.
"""

from __future__ import annotations

from collections.abc import Sequence

from server.engine.engine import Engine
from server.engine.generation import Generation
from server.engine.prefix_cache import common_prefix
from server.engine.sampler import Allowed, Sampling
from server.engine.sequence import Job
from server.engine.timings import Timings
from server.engine.token_constraint import Unconstrained

MOST_WORDS = 32  # tokens that are scored, each with a row of logits; later ones tell little more


def last_words(without: list[int], blank: list[int]) -> list[int]:
    """What a prompt without tools has from the user's last words on; `blank` has none in place."""
    return without[common_prefix(without, blank) :]


async def affinity(
    engine: Engine, prompt: list[int], without: list[int], words: list[int], before: Timings | None
) -> tuple[float, Timings]:
    """Of `words`, with which both prompts end; and what finding out took, after what was `before`.

    Raises Busy, ShuttingDown.
    """
    scored = words[:MOST_WORDS]
    begun: list[Generation] = []
    try:
        for tokens, spent, beside in ((prompt, before, False), (without, None, True)):
            job = Job(
                tokens[: -len(words)],
                _Recited(scored),
                Sampling(temperature=0),
                max_tokens=len(scored),
                top_logprobs=0,
                counts=False,
                before=spent,
                beside=beside,
            )
            begun.append(await engine.submit(job))
        found, missed = [await _logprob(generation) for generation in begun]
    finally:
        for generation in begun:
            generation.cancel()
    timings, others = (generation.sequence.timings for generation in begun)
    timings.forward_passes += others.forward_passes
    timings.prefilled_tokens += others.prefilled_tokens + others.forced_tokens
    return found - missed, timings


async def _logprob(generation: Generation) -> float:
    total = 0.0
    async for update in generation.updates():
        total += sum(score.chosen.logprob for score in update.scores)
    return total


class _Recited(Unconstrained):
    """These tokens and no others."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._left = list(tokens)

    def forced(self) -> list[int]:
        run, self._left = self._left, []
        return run

    def finished(self) -> bool:
        return not self._left

    def mask(self) -> Allowed:
        raise AssertionError("all is forced")
