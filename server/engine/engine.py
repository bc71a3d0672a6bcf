"""The engine: one thread that owns the model; everything else is a queue.

A step reads as: take what was submitted or cancelled, admit, plan a batch, run it, sample after
every sequence whose pending tokens are all decoded. Whoever waits for tokens is told through a
callback on the engine's thread; `Generation` bridges it to asyncio.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from server.engine.cache_file import CacheFile
from server.engine.cells import Cells
from server.engine.generation import Generation
from server.engine.host_cache import HostCache
from server.engine.prefix_cache import PrefixCache
from server.engine.runner import BatchItem, DecodeFailed, OutOfCells, Runner
from server.engine.scheduler import Freed, Scheduler, Slice
from server.engine.sequence import EndReason, Job, Sequence
from server.engine.timings import Timings
from server.errors import CallwrightError, InvalidRequest, ShuttingDown

log = logging.getLogger(__name__)

PREFILL_CHUNK = 64  # tokens of a prefill that may go before running streams get their next token
DRAFT_BELOW = 2  # sequences: with more of them a batch costs more than a wrong draft is worth


@dataclass(frozen=True)
class EngineOptions:
    max_sequences: int = 4
    cached_sequences: int = 16
    cached_tokens: int = 0
    host_cache_tokens: int = 0
    batch_tokens: int = 512
    queue_length: int = 64
    draft_tokens: int = 0
    in_order: bool = False  # cells of a sequence, unless they run out; see Scheduler.trim

    @property
    def slots(self) -> int:
        """Sequence ids that the KV cache must know."""
        return self.max_sequences + self.cached_sequences


@dataclass(frozen=True)
class Load:
    """A snapshot for /health."""

    running: int
    waiting: int
    used_cells: int
    cells: int


Observer = Callable[[Timings, str], None]
"""Told on the engine's thread of each request that ended: stop, length, error,
timeout or abort."""


class Engine:
    """Runs jobs on a model. `start` first, `stop` at the end; the rest may be called anywhere."""

    def __init__(
        self,
        runner: Runner,
        options: EngineOptions,
        observe: Observer = lambda *_: None,
        cache_file: CacheFile | None = None,
    ) -> None:
        self._runner = runner
        self._options = options
        self._observe = observe
        copies_out = runner.can_copy_out and options.host_cache_tokens
        host = HostCache(options.host_cache_tokens) if copies_out else None
        self._scheduler = Scheduler(
            PrefixCache(runner.context_length),
            max_sequences=options.max_sequences,
            slots=options.slots,
            batch_tokens=options.batch_tokens,
            prefill_chunk=PREFILL_CHUNK,
            queue_length=options.queue_length,
            reuse_prefixes=runner.can_cut and options.cached_sequences > 0,
            retired_cells=options.cached_tokens,
            # What a draft leaves free would be filled by the others that run.
            draft_below=1 if options.in_order else DRAFT_BELOW,
            in_order=options.in_order,
            host=host,
        )
        self._cells = Cells(runner, self._scheduler, host, cache_file if runner.can_cut else None)
        self._draft_tokens = options.draft_tokens if runner.can_cut else 0
        self._inbox: queue.SimpleQueue[tuple[Sequence, Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._accepting = True
        self._submitting = threading.Lock()  # no job comes in after the last look into the inbox
        self._stopping = threading.Event()
        self._stop_lock = threading.Lock()

    def start(self) -> None:
        self._cells.load()
        self._thread.start()

    def stop(self, grace_s: float) -> None:
        """Refuse new jobs, let running ones finish for `grace_s` seconds, then fail them.

        May be called again; returns when the engine has stopped.
        """
        with self._submitting:
            self._accepting = False
        with self._stop_lock:
            if self._stopping.is_set():
                return
            deadline = time.monotonic() + grace_s
            while self._scheduler.has_work and time.monotonic() < deadline:
                time.sleep(0.05)
            self._stopping.set()
            self._inbox.put(None)
            self._thread.join()
            self._runner.close()

    @property
    def load(self) -> Load:
        scheduler = self._scheduler
        cache = scheduler.cache
        return Load(
            len(scheduler.running), len(scheduler.waiting), cache.used_cells, cache.capacity
        )

    def check_count(self, count: int, *, param: str) -> None:
        """Raises InvalidRequest if so many jobs can never be there together."""
        if count > self._options.max_sequences + self._options.queue_length:
            raise InvalidRequest(
                f"{count} answers at once: this server runs {self._options.max_sequences} and lets"
                f" {self._options.queue_length} wait",
                param=param,
            )

    async def submit(self, job: Job) -> Generation:
        """Queue a job. Raises InvalidRequest for an empty prompt, Busy if the queue is full,
        ShuttingDown at the end.
        """
        if not job.prompt:
            raise InvalidRequest("the prompt is empty: there is nothing to go on from")
        generation = Generation(job, wake=lambda: self._inbox.put(None))
        queued: Future[None] = Future()
        with self._submitting:
            if not self._accepting:
                raise ShuttingDown("the server is shutting down")
            self._inbox.put((generation.sequence, queued))
        try:
            await asyncio.wrap_future(queued)
        except BaseException:
            generation.cancel()
            raise
        return generation

    # The engine's thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._drop_cancelled()  # first: what has left makes room in the queue
                self._take(block=not self._scheduler.has_work)
                self._step()
            except Exception as exc:
                log.exception("the engine's step failed")
                self._fail_all(exc)
        closing = ShuttingDown("the server is shutting down")
        for sequence in list(self._scheduler.running):
            self._retire(sequence)
            self._tell_failed(sequence, closing)
        try:
            self._cells.save()
        except Exception:
            log.exception("the prefix cache could not be saved")
        self._fail_all(closing)
        self._refuse_rest()

    def _take(self, *, block: bool) -> None:
        """Queue what was submitted since the last step; wait for something if there is no work."""
        while True:
            try:
                item = self._inbox.get(block=block)
            except queue.Empty:
                return
            block = False
            if item is not None:
                self._queue(*item)

    def _queue(self, sequence: Sequence, queued: Future[None]) -> None:
        if not queued.set_running_or_notify_cancel():
            return  # the client left before we came to it
        try:
            self._scheduler.add(sequence)
        except CallwrightError as exc:
            queued.set_exception(exc)
        else:
            queued.set_result(None)

    def _drop_cancelled(self) -> None:
        for sequence in [*self._scheduler.running, *self._scheduler.waiting]:
            if sequence.cancelled:
                self._retire(sequence)
                sequence.finish()
                self._count_ended(sequence, sequence.cancelled)

    def _step(self) -> None:
        self._admit()
        slices = self._scheduler.plan()
        self._cells.free(self._scheduler.make_room(slices))
        slices = [part for part in slices if part.sequence.slot is not None]
        if not slices:
            return
        started = time.perf_counter()
        try:
            rows = self._decode(slices)
        except (OutOfCells, DecodeFailed) as exc:
            log.error("forward pass failed: %r", exc)
            self._fail_running(CallwrightError("the model could not be run on this request"))
            return
        elapsed = time.perf_counter() - started
        for part, row in zip(slices, rows, strict=True):
            self._count(part, elapsed)
            sequence, completes = part.sequence, part.completes
            self._scheduler.decoded(part)
            last = sequence.decoded - 1
            if completes and sequence.ending is None:
                self._advance(sequence, row, part.draft)
            if sequence.job.top_logprobs is not None and sequence.slot is not None:
                self._score(sequence, row, last)

    def _admit(self) -> None:
        for action in self._scheduler.admit():
            if isinstance(action, Freed):
                self._cells.free([action])
                continue
            self._cells.share(action)
            sequence = action.sequence
            if not sequence.started:
                sequence.started = True
                timings = sequence.timings
                timings.queue_s += time.perf_counter() - sequence.queued_at
                timings.prompt_tokens = len(sequence.job.prompt)
                before = sequence.job.before
                found = sequence.decoded if before is None else before.cached_tokens
                timings.cached_tokens = min(found, sequence.decoded)
                # The forced opening of an answer joins the prefill of its prompt.
                self._tell_new(sequence, sequence.force)
                self._propose(sequence)

    def _decode(self, slices: list[Slice]) -> list[int]:
        """Run a batch; return for each slice the row of its last token, before its draft."""
        items: list[BatchItem] = []
        rows = []
        for part in slices:
            sequence = part.sequence
            assert sequence.slot is not None
            scored_from = sequence.scored_from
            for offset in range(part.count):
                position = sequence.decoded + offset
                wanted = part.completes and offset == part.count - 1
                if scored_from is not None:
                    wanted = wanted or position >= scored_from
                items.append(BatchItem(sequence.tokens[position], position, sequence.slot, wanted))
            rows.append(len(items) - 1)
            position = sequence.decoded + part.count
            for offset, token in enumerate(part.draft):
                items.append(BatchItem(token, position + offset, sequence.slot, True))
        self._runner.decode(items)
        return rows

    def _count(self, part: Slice, elapsed: float) -> None:
        sequence = part.sequence
        timings = sequence.timings
        timings.forward_passes += 1
        timings.model_s += elapsed
        prefilled = min(part.count, max(0, sequence.prefill - sequence.decoded))
        timings.prefilled_tokens += prefilled
        if prefilled:
            timings.prefill_s += elapsed

    def _advance(self, sequence: Sequence, row: int, draft: tuple[int, ...]) -> None:
        """Sample after a forward pass: one token, and one more for each that the draft foresaw.

        Every token is sampled from the model's own logits, so drafts change nothing but the number
        of passes.
        """
        sequence.timings.drafted_tokens += len(draft)
        confirmed = 0
        while True:
            before, decoded = len(sequence.tokens), sequence.decoded
            self._sample(sequence, row + confirmed)
            if sequence.slot is None or sequence.ending or sequence.decoded < decoded:
                return  # it ended, or took something back
            count = sequence.confirm(draft[confirmed:], before)
            confirmed += count
            sequence.timings.accepted_tokens += count
            if sequence.pending:
                break
        if confirmed < len(draft):
            self._cut(sequence)
        self._propose(sequence)

    def _propose(self, sequence: Sequence) -> None:
        """Draft what may follow. Not where tokens are scored: that goes by pending ones alone."""
        if self._draft_tokens and sequence.slot is not None and sequence.job.top_logprobs is None:
            try:
                sequence.propose(self._draft_tokens)
            except Exception as exc:
                self._fail(sequence, exc)

    def _sample(self, sequence: Sequence, row: int) -> None:
        try:
            token = sequence.sampler.choose(self._runner.logits(row), sequence.constraint)
        except Exception as exc:
            self._fail(sequence, exc)
            return
        if token in self._runner.vocabulary.end:
            self._end(sequence, "stop")
        else:
            self._tell_new(sequence, lambda: sequence.append(token))

    def _score(self, sequence: Sequence, row: int, last: int) -> None:
        """Score the tokens that follow the positions of a pass; `row` has the logits of `last`."""

        def extend() -> EndReason | None:
            known = min(last + 1, sequence.decoded, len(sequence.tokens) - 1)
            for position in range(sequence.scored_from or 0, known):
                sequence.score(self._runner.logits(row + position - last))
            return None if sequence.unscored else sequence.ending

        self._tell_new(sequence, extend)

    def _cut(self, sequence: Sequence) -> None:
        """Drop the cells beyond what the sequence says is decoded."""
        assert sequence.slot is not None
        self._scheduler.cache.truncate(sequence.slot, sequence.decoded)
        self._runner.cut(sequence.slot, sequence.decoded)

    def _tell_new(self, sequence: Sequence, extend: Callable[[], EndReason | None]) -> None:
        """Let a sequence grow, tell of its new tokens, and end it if that was the end."""
        decoded = sequence.decoded
        try:
            end = extend()
            news = () if end else sequence.news(everything=False)
        except Exception as exc:
            self._fail(sequence, exc)
            return
        if sequence.decoded < decoded and sequence.slot is not None:
            sequence.draft = ()
            self._cut(sequence)
        if end is not None:
            self._end(sequence, end)
        elif news:
            sequence.tell(sequence.update(news))

    def _end(self, sequence: Sequence, end: EndReason) -> None:
        if sequence.unscored:
            sequence.ending = end  # and comes here again when the scores are known
            return
        self._retire(sequence)
        if news := sequence.news(everything=True):
            sequence.tell(sequence.update(news))
        last = sequence.finish(end)
        self._count_ended(sequence, end)  # first, so that who was answered finds it counted
        sequence.tell(last)

    def _fail(self, sequence: Sequence, exc: Exception) -> None:
        """A fault of one sequence ends that one only."""
        if not isinstance(exc, CallwrightError):
            log.error("a request failed", exc_info=exc)
            exc = CallwrightError("the request failed inside the engine")
        self._retire(sequence)
        self._tell_failed(sequence, exc)

    def _tell_failed(self, sequence: Sequence, error: CallwrightError) -> None:
        last = sequence.finish(error=error)
        self._count_ended(sequence, "error")
        sequence.tell(last)

    def _count_ended(self, sequence: Sequence, reason: str) -> None:
        if sequence.job.counts:
            self._observe(sequence.timings, reason)

    def _retire(self, sequence: Sequence) -> None:
        slot = self._scheduler.retire(sequence, keep=True)
        if slot is not None:
            self._runner.cut(slot, 0)
        self._cells.free(self._scheduler.trim())

    def _fail_running(self, error: CallwrightError) -> None:
        """Forget the KV cache, whose state is unknown, and fail what was running."""
        for sequence in self._scheduler.reset():
            self._tell_failed(sequence, error)
        self._runner.clear()

    def _fail_all(self, exc: Exception) -> None:
        """Fail also what waits: the fault may be in it."""
        error = exc if isinstance(exc, CallwrightError) else CallwrightError("the engine failed")
        self._fail_running(error)
        for sequence in self._scheduler.waiting:
            self._tell_failed(sequence, error)
        self._scheduler.waiting.clear()

    def _refuse_rest(self) -> None:
        while not self._inbox.empty():
            item = self._inbox.get()
            if item is not None and item[1].set_running_or_notify_cancel():
                item[1].set_exception(ShuttingDown("the server is shutting down"))
