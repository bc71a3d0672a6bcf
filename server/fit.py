"""The fit question: does one of the tools do what the user asks for? Asked before the answer.

Where an answer begins, small models lean towards a call whatever is offered. Asked outright, they
know better. How much the answer leans to yes or no is added to the bias of calls against text
(`server/call_bias.py`). The cost is a prefill of the question, as the rest of the prompt is needed
for the answer too, and one token.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prompts.conversation import Conversation
from server.engine.engine import Engine
from server.engine.sampler import Allowed, Logits, Sampling
from server.engine.sequence import Job
from server.engine.timings import Timings
from server.engine.vocabulary import Vocabulary

QUESTION = "Can one of the functions do this? Answer yes or no."
WORDS = (b"yes", b"no")
AROUND = b" \t\n\"'*"


def asks_for_fit(conversation: Conversation) -> bool:
    """Whether a user has the last word: after a result the question would be another one."""
    return bool(conversation.messages) and conversation.messages[-1].role == "user"


def with_question(conversation: Conversation) -> Conversation:
    """The conversation with the question behind the user's last words."""
    *before, last = conversation.messages
    asked = replace(last, content=f"{last.content}\n\n{QUESTION}")
    return replace(conversation, messages=(*before, asked))


class FitQuestion:
    """Asks one model; `vocabulary` is its own."""

    def __init__(self, engine: Engine, vocabulary: Vocabulary) -> None:
        self._engine = engine
        self._vocabulary = vocabulary

    @cached_property
    def _words(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tokens of yes and of no; found when first asked, as most models never are.

        Or what begins the words, where a vocabulary has them in pieces only.
        """
        bare = [piece.strip(AROUND).lower() for piece in self._vocabulary.pieces]
        yes, no = (
            np.flatnonzero([bool(piece) and word.startswith(piece) for piece in bare])
            for word in WORDS
        )
        return yes, no

    async def margin(self, prompt: list[int]) -> tuple[float, Timings]:
        """By how much the logit of yes is above that of no, after a prompt with the question.

        And what it took, for the answer's job to go on from. Raises Busy, ShuttingDown.
        """
        probe = _Probe()
        job = Job(prompt, probe, Sampling(temperature=0), max_tokens=1, counts=False)
        generation = await self._engine.submit(job)
        try:
            async for _ in generation.updates():
                pass
        finally:
            generation.cancel()
        assert probe.logits is not None
        yes, no = self._words
        margin = float(probe.logits[yes].max() - probe.logits[no].max())
        return margin, generation.sequence.timings


class _Probe:
    """Implements the engine's TokenConstraint: any one token, whose logits are kept."""

    def __init__(self) -> None:
        self.logits: Logits | None = None

    def weigh(self, logits: Logits) -> Logits:
        if self.logits is None:
            self.logits = logits.copy()
        return logits

    def forced(self) -> list[int]:
        return []

    def allows(self, token: int) -> bool:
        return True

    def mask(self) -> Allowed:
        assert self.logits is not None
        return np.ones(len(self.logits), np.bool_)

    def accept(self, token: int) -> None:
        pass

    def finished(self) -> bool:
        return False

    def held(self) -> int:
        return 0

    def take_back(self) -> int:
        return 0

    def likely(self, limit: int) -> list[int]:
        return []
