"""Who runs next: pure decisions over waiting and running sequences. Nothing native is imported.

First come, first served. Running sequences that decode go into every batch; what is left of it
takes chunks of prefills, so that a long prompt delays running streams by one chunk at most. When
KV cells run out, retired prefixes go first, then the youngest running sequence is paused: it waits
again at the head of the queue and resumes from its tokens. Drafts, whose cost grows with the batch,
are taken while at most `draft_below` sequences run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from server.engine.host_cache import HostCache, Kept
from server.engine.prefix_cache import Books, Match, PrefixCache, common_prefix
from server.engine.sequence import Sequence
from server.errors import Busy

WORTH_COPYING = 4  # tokens more than cells have: a prefill of so many takes longer than a copy


@dataclass(frozen=True)
class Admission:
    """A sequence got a slot, and the first `shared` cells of slot `source` or of what was kept."""

    sequence: Sequence
    slot: int
    shared: int
    source: int | None = None
    kept: Kept | None = None


@dataclass(frozen=True)
class Freed:
    """A slot to free. `tokens`: what its cells hold, if that may be of use again."""

    slot: int
    tokens: list[int]


@dataclass(frozen=True)
class Slice:
    """The next `count` pending tokens of a sequence go into the batch, and after them a draft.

    A draft guesses tokens that may follow; only a slice that completes has one.
    """

    sequence: Sequence
    count: int
    draft: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Tokens in the batch."""
        return self.count + len(self.draft)

    @property
    def completes(self) -> bool:
        """Whether the last pending token is in it, so that a token can be sampled after it."""
        return self.count == self.sequence.pending


class Scheduler:
    """Owns the queue, the slots and the accounting of cells."""

    def __init__(
        self,
        cache: PrefixCache,
        *,
        max_sequences: int,
        slots: int,
        batch_tokens: int,
        prefill_chunk: int,
        queue_length: int,
        reuse_prefixes: bool = True,
        retired_cells: int | None = None,
        draft_below: int = 0,
        in_order: bool = False,
        host: HostCache | None = None,
    ) -> None:
        self.cache = cache
        self.host = host
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._free_slots = list(range(slots))[::-1]
        self._max_sequences = max_sequences
        self._batch_tokens = batch_tokens
        self._prefill_chunk = min(prefill_chunk, batch_tokens)
        self._queue_length = queue_length
        self._reuse_prefixes = reuse_prefixes
        self._retired_cells = cache.capacity if retired_cells is None else retired_cells
        self._draft_below = draft_below
        self._in_order = in_order

    def restore(self, books: Books) -> None:
        """Take over the retired sequences of an earlier run with as many slots."""
        self.cache.restore(books)
        self._free_slots = [slot for slot in self._free_slots if slot not in books.retired]

    def adopt(self, kept: Kept) -> int | None:
        """Make the oldest retired sequence of what was kept, if there is room. Returns its slot."""
        if not self._free_slots or len(kept.tokens) > self.cache.free_cells:
            return None
        slot = self._free_slots.pop()
        self.cache.append(slot, kept.tokens)
        self.cache.retire(slot, oldest=True)
        return slot

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence. Raises Busy if too many wait already.

        One that goes on from an earlier job has waited for both.
        """
        if sequence.job.before is not None:
            self.waiting.appendleft(sequence)
            return
        if sequence.job.beside:
            self.waiting.append(sequence)
            return
        idle = self._max_sequences - len(self.running)
        jobs = [waiting.job for waiting in self.waiting]
        queued = sum(job.before is None and not job.beside for job in jobs)
        if queued >= self._queue_length + idle:
            raise Busy(f"the queue is full: {queued} requests are waiting", retry_after_s=5)
        self.waiting.append(sequence)

    def admit(self) -> Iterator[Admission | Freed]:
        """Give slots to waiting sequences, oldest first.

        Yields what the caller has to do in the KV cache, in order: an Admission to share a prefix,
        or a slot to free (evicted to make room for a slot).
        """
        while self.waiting and len(self.running) < self._max_sequences:
            sequence = self.waiting[0]
            known = sequence.tokens[: sequence.reusable]
            match = self.cache.match(known) if self._reuse_prefixes else None
            if self.running and not self._fits(sequence, match):
                return
            if self.running and self._in_order and not self._fits_behind(sequence, match):
                return
            if self._reuse_prefixes and self._promised(sequence) > (match.length if match else 0):
                return
            if not self._free_slots:
                freed = self._evict()
                if freed is None:
                    return
                yield freed
                continue  # what was evicted may have been the match
            self.waiting.popleft()
            yield self._admission(sequence, match)

    def _admission(self, sequence: Sequence, match: Match | None) -> Admission:
        slot = self._free_slots.pop()
        known = sequence.tokens[: sequence.reusable]
        shared = match.length if match else 0
        found = self.host.match(known, self.cache.free_cells) if self.host else None
        self.running.append(sequence)
        sequence.slot = slot
        if self.host and found and found[1] >= shared + WORTH_COPYING:
            kept, shared = found
            if 2 * shared >= len(kept.tokens):  # otherwise it is another conversation's
                self.host.touch(kept)
            self.cache.append(slot, kept.tokens[:shared])
            admission = Admission(sequence, slot, shared, kept=kept)
        else:
            if match:
                self.cache.share(match.holder, slot, shared)
            admission = Admission(sequence, slot, shared, match.holder if match else None)
        sequence.decoded = shared
        return admission

    def lost(self, admission: Admission) -> None:
        """What was kept did not come back: its sequence begins without."""
        self.cache.release(admission.slot)
        admission.sequence.decoded = 0

    def plan(self) -> list[Slice]:
        """The next batch: decoding sequences first, then prefills in order of arrival."""
        slices: list[Slice] = []
        room = self._batch_tokens
        decoding = [sequence for sequence in self.running if sequence.decoding]
        for at, sequence in enumerate(decoding, start=1):
            behind = len(decoding) - at  # each of which has its token in this batch too
            most = room - behind if len(decoding) == 1 else min(room - behind, self._prefill_chunk)
            if part := self._slice(sequence, max(0, most)):
                slices.append(part)
                room -= part.size
        if decoding:
            room = min(room, self._prefill_chunk)
        for sequence in self.running:
            if not sequence.decoding and (part := self._slice(sequence, room)):
                slices.append(part)
                room -= part.size
        return slices

    def _slice(self, sequence: Sequence, room: int) -> Slice | None:
        """As many of its pending tokens as there is room for, and its draft if few others run."""
        count = sequence.run_length(room)
        if not count:
            return None
        part = Slice(sequence, count)
        if part.completes and len(self.running) <= self._draft_below:
            part = replace(part, draft=sequence.draft[: room - count])
        return part

    def make_room(self, slices: list[Slice]) -> Iterator[Freed]:
        """Free cells until the batch fits. Yields slots that the caller must free.

        Drafts are dropped from `slices` before a sequence is paused. Slices of sequences that were
        paused on the way need none and must not be run. Stops early when one sequence alone is
        left: it always fits.
        """
        while self.cache.free_cells < sum(
            part.size for part in slices if part.sequence.slot is not None
        ):
            freed = self._evict()
            if freed is None and any(part.draft for part in slices):
                slices[:] = [replace(part, draft=()) for part in slices]  # not worth a pause
                continue
            if freed is None and len(self.running) > 1:
                freed = self._pause_youngest()
            if freed is None:
                return
            yield freed

    def _evict(self) -> Freed | None:
        """Let the least recently used retired sequence go."""
        if not self.cache.retired:
            return None
        tokens = self.cache.tokens(self.cache.retired[0])
        slot = self.cache.evict()
        assert slot is not None
        self._free_slots.append(slot)
        return Freed(slot, tokens)

    def _promised(self, sequence: Sequence) -> int:
        """How many tokens of its prompt a running prefill is about to decode for it too.

        Waiting for them costs nothing: a forward pass takes as long as its tokens, whose ever they
        are.
        """
        return max(
            (
                common_prefix(other.tokens, sequence.tokens[: sequence.reusable])
                for other in self.running
                if not other.decoding
            ),
            default=0,
        )

    def _fits(self, sequence: Sequence, match: Match | None) -> bool:
        """Whether a sequence could be prefilled beside those that run, without pausing one."""
        slots = {running.slot for running in self.running if running.slot is not None}
        taken = self.cache.cells_of(slots) + sum(running.pending for running in self.running)
        shared = self.cache.held(match, slots) if match else 0
        return taken + len(sequence.tokens) - shared <= self.cache.capacity

    def _fits_behind(self, sequence: Sequence, match: Match | None) -> bool:
        """Whether nothing has to be let go for a sequence: its cells come behind all others."""
        pending = sum(running.pending for running in self.running)
        pending += len(sequence.tokens) - (match.length if match else 0)
        return bool(self._free_slots) and pending <= self.cache.free_cells

    def _pause_youngest(self) -> Freed:
        sequence = self.running.pop()
        slot = sequence.slot
        assert slot is not None
        tokens = sequence.tokens[: sequence.decoded]
        self._release(slot)
        self._free_slots.append(slot)
        sequence.pause()
        self.waiting.appendleft(sequence)
        return Freed(slot, tokens)

    def decoded(self, part: Slice) -> None:
        """A slice went through the model. Its draft is in cells, but not in the sequence yet."""
        sequence = part.sequence
        assert sequence.slot is not None
        tokens = sequence.tokens[sequence.decoded : sequence.decoded + part.count]
        self.cache.append(sequence.slot, [*tokens, *part.draft])
        sequence.decoded += part.count

    def retire(self, sequence: Sequence, *, keep: bool) -> int | None:
        """A sequence ended or was cancelled. Returns a slot that the caller must free, if any."""
        if sequence.slot is None:
            self.waiting.remove(sequence)
            return None
        self.running.remove(sequence)
        slot, sequence.slot = sequence.slot, None
        if keep and self._reuse_prefixes and sequence.decoded:
            self.cache.retire(slot, oldest=sequence.job.beside)
            return None
        self._release(slot)
        self._free_slots.append(slot)
        return slot

    def trim(self) -> Iterator[Freed]:
        """Let retired sequences go until they hold no more cells than they should.

        Attention goes over all cells up to the last one in use, whose ever they are: with 8,000
        idle ones a prefill takes half as long again (measured on a CPU). Where they cannot be kept
        elsewhere beside as many others as can run, so many stay whatever they hold, so that so many
        agents find their last turns. Yields slots that the caller must free.

        Attention adds up in the order of cells, and llama.cpp takes those first that are free
        lowest. So where the cells of a sequence have to stay `in_order`, all retired ones are let
        go at once, when nothing runs.
        """
        everything = self._in_order and self._overdue and not self.running
        while everything or (self._overdue and not self._in_order):
            freed = self._evict()
            if freed is None:
                return
            yield freed

    @property
    def _overdue(self) -> bool:
        """Whether retired sequences should go."""
        if self._in_order and not self._free_slots:
            return True
        slots = {sequence.slot for sequence in self.running if sequence.slot is not None}
        idle = self.cache.used_cells - self.cache.cells_of(slots)
        if not self.cache.retired or idle <= self._retired_cells:
            return False
        oldest = self.cache.tokens(self.cache.retired[0])
        goes = self.host is not None and self.host.has_room(oldest, self._max_sequences)
        return goes or len(self.cache.retired) > self._max_sequences

    def _release(self, slot: int) -> None:
        try:
            self.cache.release(slot)
        except KeyError:
            pass  # nothing decoded or shared yet

    def reset(self) -> list[Sequence]:
        """Forget all cells, after a failed forward pass. Returns what was running."""
        lost, self.running = self.running, []
        for slot in (*self.cache.retired, *(s.slot for s in lost if s.slot is not None)):
            self._release(slot)
            self._free_slots.append(slot)
        return lost
