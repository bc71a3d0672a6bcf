"""One request inside the engine: what was submitted, how far it is, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from server.engine.logprobs import Score, score
from server.engine.sampler import Logits, Sampler, Sampling
from server.engine.timings import Timings
from server.engine.token_constraint import TimedConstraint, TokenConstraint

EndReason = Literal["stop", "length"]
CancelReason = Literal["stop", "timeout", "abort"]
"""Why whoever asked wants no more: a stop string was there, it took too long, or they left."""

SCORED_TOKENS = 16  # in one batch: each needs a row of logits, which is as long as the vocabulary


@dataclass(frozen=True)
class Job:
    """What is submitted: prompt token ids, and at most `max_tokens` new ones.

    `top_logprobs`: how many tokens to tell the log-probability of beside each output token's own;
    None for none at all. `counts`: whether it is a request of its own, for those who observe.
    `before`: the timings of a job for the same request that ended; they go on in this one's.
    `beside`: it goes beside another job of its request, and so takes no place in the queue that
    others lack for it, and its cells are the first to go.
    """

    prompt: list[int]
    constraint: TokenConstraint
    sampling: Sampling
    max_tokens: int
    top_logprobs: int | None = None
    counts: bool = True
    before: Timings | None = None
    beside: bool = False


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
        self.cancelled: CancelReason | None = None
        self.sampler = Sampler(job.sampling)
        self.timings = Timings() if job.before is None else job.before.continued()
        self.queued_at = time.perf_counter()
        self.constraint = TimedConstraint(job.constraint, self.timings)

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
        run = self.constraint.forced()
        kept = run[: self.job.max_tokens - self.output_tokens]
        self.timings.forced_tokens += len(kept)
        return self._extend(kept, cut=len(kept) < len(run))

    def append(self, token: int) -> EndReason | None:
        """Append a sampled token and what it forces; say if the output ends with them."""
        self.timings.first_token_s = self.timings.first_token_s or self.elapsed()
        self.constraint.accept(token)
        return self._extend([token], cut=False) or self.force()

    def _extend(self, run: list[int], *, cut: bool) -> EndReason | None:
        self.tokens += run
        self.sampler.count(run)
        if cut:
            return "length"
        back = self.constraint.take_back()
        if back:
            self.sampler.count(self.tokens[-back:], -1)
            del self.tokens[-back:]
            del self.scores[self.output_tokens :]
            # The last token that is left is decoded again: its logits are needed.
            self.decoded = min(self.decoded, len(self.tokens) - 1)
            self.prefill = min(self.prefill, len(self.tokens) - 1)
        if self.constraint.finished():
            return "stop"
        return "length" if self.output_tokens >= self.job.max_tokens else None

    def propose(self, limit: int) -> None:
        """Draft what may follow, for the next forward pass to confirm."""
        room = self.job.max_tokens - self.output_tokens
        self.draft = tuple(self.constraint.likely(min(limit, room)))

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
        sure = len(self.tokens) - (0 if everything else self.constraint.held())
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
        self.timings.total_s = self.elapsed()
        if not self.started:
            self.timings.queue_s += time.perf_counter() - self.queued_at
        if end is not None and self.output_tokens and not self.timings.first_token_s:
            self.timings.first_token_s = self.timings.total_s
        return Update(end=end, error=error, timings=self.timings)

    def elapsed(self) -> float:
        """Seconds since it was submitted."""
        return time.perf_counter() - self.timings.submitted
