"""One request inside the engine: what was submitted, how far it is, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from server.engine.logprobs import Score, score
from server.engine.sampler import Allowed, Logits, Sampler, Sampling

EndReason = Literal["stop", "length"]

SCORED_TOKENS = 16  # in one batch: each needs a row of logits, which is as long as the vocabulary


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


@dataclass(frozen=True)
class Job:
    """What is submitted: prompt token ids, and at most `max_tokens` new ones.

    `top_logprobs`: how many tokens to tell the log-probability of beside each output token's own;
    None for none at all.
    """

    prompt: list[int]
    constraint: TokenConstraint
    sampling: Sampling
    max_tokens: int
    top_logprobs: int | None = None


@dataclass
class Timings:
    """Where the time of a request went: seconds, tokens and forward passes.

    `first_token_s` is from its submission until the model had chosen a token, so that it has the
    queue and the prefill in it: what is forced before that is known without the model. If all of
    it is forced, until its end; 0 where nothing was chosen. `model_s` is the time of the forward
    passes that it took part in, shared or not.
    """

    submitted: float = field(default_factory=time.perf_counter)
    queue_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float = 0.0
    model_s: float = 0.0
    total_s: float = 0.0
    cached_tokens: int = 0
    prefilled_tokens: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    output_tokens: int = 0
    forward_passes: int = 0


@dataclass(frozen=True)
class Update:
    """New tokens of a sequence; the last update has an end or an error.

    `scores` has one entry per token if the job asks for log-probabilities, else none.
    """

    tokens: tuple[int, ...] = ()
    scores: tuple[Score, ...] = ()
    end: EndReason | None = None
    error: Exception | None = None
    timings: Timings | None = None


class Sequence:
    """A job on its way through the engine.

    `tokens` are the prompt and all output so far, `decoded` how many of them are in the KV cache;
    the rest is pending. The first `prefill` ones were there when it got its `slot` (its id in the
    KV cache): the prompt, and after a pause the output so far. Without a slot it is waiting.

    If log-probabilities are asked for, `scores` has those of the first output tokens. A forced
    token is scored when the token before it is decoded, and told no sooner; so the sequence may
    have to go on for that when its `ending` is decided.
    """

    def __init__(self, job: Job, tell: Callable[[Update], None]) -> None:
        self.job = job
        self.tell = tell
        self.tokens = list(job.prompt)
        self.decoded = 0
        self.prefill = len(job.prompt)
        self.told = len(job.prompt)
        self.slot: int | None = None
        self.draft: tuple[int, ...] = ()
        self.scores: list[Score] = []
        self.ending: EndReason | None = None
        self.started = False
        self.cancelled = False
        self.sampler = Sampler(job.sampling)
        self.timings = Timings()

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.decoded

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - len(self.job.prompt)

    @property
    def decoding(self) -> bool:
        """Past its prefill: what is pending came from the model or the constraint."""
        return self.decoded >= self.prefill

    @property
    def unscored(self) -> int:
        """Output tokens whose log-probability is asked for and not known yet."""
        return 0 if self.job.top_logprobs is None else self.output_tokens - len(self.scores)

    @property
    def scored_from(self) -> int | None:
        """The first position whose logits are wanted for a log-probability; None for none."""
        if self.job.top_logprobs is None:
            return None
        return len(self.job.prompt) - 1 + len(self.scores)

    @property
    def reusable(self) -> int:
        """How many of the tokens may come from cells that are there, instead of being decoded."""
        scored_from = self.scored_from
        return len(self.tokens) - 1 if scored_from is None else scored_from

    def run_length(self, room: int) -> int:
        """How many pending tokens go into a batch that has room for so many."""
        count = min(self.pending, room)
        scored_from = self.scored_from
        if scored_from is not None:
            count = min(count, max(0, scored_from - self.decoded) + SCORED_TOKENS)
        return count

    def score(self, logits: Logits) -> None:
        """Score the next output token, before which the model gave these logits."""
        assert self.job.top_logprobs is not None
        token = self.tokens[len(self.job.prompt) + len(self.scores)]
        self.scores.append(score(logits, token, self.job.top_logprobs))

    def pause(self) -> None:
        """Give up the slot. All tokens so far are decoded again when there is another."""
        self.slot, self.decoded, self.prefill = None, 0, len(self.tokens)

    def force(self) -> EndReason | None:
        """Append the tokens that leave no choice; say if the output ends with them."""
        run = self.job.constraint.forced()
        kept = run[: self.job.max_tokens - self.output_tokens]
        self.timings.forced_tokens += len(kept)
        return self._extend(kept, cut=len(kept) < len(run))

    def append(self, token: int) -> EndReason | None:
        """Append a sampled token and what it forces; say if the output ends with them."""
        self.timings.first_token_s = self.timings.first_token_s or self._elapsed()
        self.job.constraint.accept(token)
        return self._extend([token], cut=False) or self.force()

    def _extend(self, run: list[int], *, cut: bool) -> EndReason | None:
        self.tokens += run
        self.sampler.count(run)
        if cut:
            return "length"
        back = self.job.constraint.take_back()
        if back:
            self.sampler.count(self.tokens[-back:], -1)
            del self.tokens[-back:]
            del self.scores[self.output_tokens :]
            # The last token that is left is decoded again: its logits are needed.
            self.decoded = min(self.decoded, len(self.tokens) - 1)
            self.prefill = min(self.prefill, len(self.tokens) - 1)
        if self.job.constraint.finished():
            return "stop"
        return "length" if self.output_tokens >= self.job.max_tokens else None

    def propose(self, limit: int) -> None:
        """Draft what may follow, for the next forward pass to confirm."""
        room = self.job.max_tokens - self.output_tokens
        self.draft = tuple(self.job.constraint.likely(min(limit, room)))

    def confirm(self, draft: tuple[int, ...], before: int) -> int:
        """How many tokens of a draft the tokens since `before` are; they are decoded already."""
        new = self.tokens[before:]
        count = 0
        while count < min(len(new), len(draft)) and new[count] == draft[count]:
            count += 1
        self.decoded += count
        return count

    def news(self, *, everything: bool) -> tuple[int, ...]:
        """Output tokens that were not told yet, without those that may be taken back."""
        sure = len(self.tokens) - (0 if everything else self.job.constraint.held())
        sure = min(sure, len(self.tokens) - self.unscored)
        told, self.told = self.told, max(self.told, sure)
        return tuple(self.tokens[told:sure])

    def update(self, news: tuple[int, ...]) -> Update:
        """The update that tells these tokens, which `news` gave just now."""
        told = self.told - len(self.job.prompt)
        return Update(news, tuple(self.scores[told - len(news) : told]))

    def finish(self, end: EndReason | None = None, error: Exception | None = None) -> Update:
        """The last update, without tokens."""
        self.timings.output_tokens = self.output_tokens
        self.timings.total_s = self._elapsed()
        if end is not None and self.output_tokens and not self.timings.first_token_s:
            self.timings.first_token_s = self.timings.total_s
        return Update(end=end, error=error, timings=self.timings)

    def _elapsed(self) -> float:
        return time.perf_counter() - self.timings.submitted
