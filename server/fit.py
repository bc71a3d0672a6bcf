"""Does one of the tools do what the user asks for? Found out before the answer, where that pays.

Where an answer begins, small models lean towards a call whatever is offered. Asked outright, they
know better: the fit question. And the tools make a question likelier that is one for them
(`server/affinity.py`). What either says is added to the bias of calls against text
(`server/call_bias.py`). The question costs a prefill of its words, as the rest of the prompt is
needed for the answer too, and one token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prompts.conversation import Conversation
from prompts.guard import GUARD
from prompts.render import Renderer
from server.affinity import affinity, last_words
from server.config import Settings
from server.engine.engine import Engine
from server.engine.sampler import Allowed, Logits, Sampling
from server.engine.sequence import Job
from server.engine.timings import Timings
from server.engine.token_constraint import Unconstrained
from server.engine.vocabulary import Vocabulary
from server.wire.chat import ChatRequest

QUESTION = "Can one of the functions do this? Answer yes or no."
WORDS = (b"yes", b"no")
AROUND = b" \t\n\"'*"


@dataclass(frozen=True)
class Fit:
    """How well the tools fit, to be added to the bias of calls, and what finding out took."""

    margin: float
    spent: Timings


class FitJudge:
    """Of one model. `questions` are the templates with which it is asked by default, and
    `affinity_weights` by what the affinity counts with which template, if anything.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        vocabulary: Vocabulary,
        *,
        questions: Collection[str],
        affinity_weights: Mapping[str, float],
        context_length: int,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._vocabulary = vocabulary
        self._questions = questions
        self._affinity_weights = affinity_weights
        self._context_length = context_length
        self._question = FitQuestion(engine, vocabulary)

    def wanted(self, request: ChatRequest, renderer: Renderer) -> bool:
        """Whether to find out at all."""
        return self._asks(request, renderer) or self._weight(renderer) != 0

    def as_measured(self, request: ChatRequest, renderer: Renderer) -> bool:
        """Whether it is found out as it was for what the catalog has: no less, no more."""
        name = renderer.template_name
        asked = self._asks(request, renderer) == (name in self._questions)
        return asked and self._weight(renderer) == self._affinity_weights.get(name, 0.0)

    async def judge(
        self,
        request: ChatRequest,
        renderer: Renderer,
        conversation: Conversation,
        prompt: list[int],
    ) -> Fit | None:
        """None where it cannot be told. `prompt` is the rendered conversation.

        Raises Busy, ShuttingDown.
        """
        if not asks_for_fit(conversation):
            return None
        margin, spent = 0.0, None
        if self._asks(request, renderer):
            asked = await asyncio.to_thread(self._asking, conversation, renderer)
            if not 0 < len(asked) < self._context_length:
                return None
            margin, spent = await self._question.margin(asked)
        if weight := self._weight(renderer):
            without, words = await asyncio.to_thread(self._bare, conversation, renderer)
            before = min(len(prompt), len(without)) - len(words)
            if not words or before < 1 or prompt[-len(words) :] != words:
                return Fit(margin, spent) if spent is not None else None
            found, spent = await affinity(self._engine, prompt, without, words, spent)
            margin += weight * found
        return Fit(margin, spent) if spent is not None else None

    def _asks(self, request: ChatRequest, renderer: Renderer) -> bool:
        """Whether the model is asked outright."""
        asks = request.fit_question
        if asks is None:
            asks = self._settings.fit_question
        return renderer.template_name in self._questions if asks is None else asks

    def _weight(self, renderer: Renderer) -> float:
        weight = self._settings.affinity_weight
        return self._affinity_weights.get(renderer.template_name, 0.0) if weight is None else weight

    def _asking(self, conversation: Conversation, renderer: Renderer) -> list[int]:
        """The prompt with the question; empty where the model would think before its yes or no."""
        text = renderer.render(with_question(conversation))
        return [] if renderer.thinking(text) == "inside" else self._encoded(text)

    def _bare(self, conversation: Conversation, renderer: Renderer) -> tuple[list[int], list[int]]:
        """The prompt without tools, and what it has from the user's last words on."""
        *before, last = conversation.messages
        bare = replace(conversation, tools=())
        blank = replace(bare, messages=(*before, replace(last, content="")))
        without, nothing = (self._encoded(renderer.render(one)) for one in (bare, blank))
        return without, last_words(without, nothing)

    def _encoded(self, text: str) -> list[int]:
        return self._vocabulary.encode_prompt(text, GUARD)


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


class _Probe(Unconstrained):
    """Any one token, whose logits are kept."""

    def __init__(self) -> None:
        self.logits: Logits | None = None

    def weigh(self, logits: Logits) -> Logits:
        if self.logits is None:
            self.logits = logits.copy()
        return logits

    def mask(self) -> Allowed:
        assert self.logits is not None
        return np.ones(len(self.logits), np.bool_)
