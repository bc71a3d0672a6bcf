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

from server.engine.prefix_cache import Books, Match, PrefixCache, common_prefix
from server.engine.sequence import Sequence
from server.errors import Busy


@dataclass(frozen=True)
class Admission:
    """A sequence got a slot; `source` is the slot whose first `shared` cells it shares."""

    sequence: Sequence
    slot: int
    source: int | None
    shared: int


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
    ) -> None:
        self.cache = cache
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

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence. Raises Busy if too many wait already."""
        if len(self.waiting) >= self._queue_length:
            raise Busy(
                f"the queue is full: {len(self.waiting)} requests are waiting", retry_after_s=5
            )
        self.waiting.append(sequence)

    def admit(self) -> Iterator[Admission | int]:
        """Give slots to waiting sequences, oldest first.

        Yields what the caller has to do in the KV cache, in order: an Admission to share a prefix,
        or a slot id to free (evicted to make room for a slot).
        """
        while self.waiting and len(self.running) < self._max_sequences:
            sequence = self.waiting[0]
            known = sequence.tokens[: sequence.reusable]
            match = self.cache.match(known) if self._reuse_prefixes else None
            if self.running and not self._fits(sequence, match):
                return
            if self.running and self._in_order and self._overdue:
                return
            if self._reuse_prefixes and self._promised(sequence) > (match.length if match else 0):
                return
            if not self._free_slots:
                evicted = self.cache.evict()
                if evicted is None:
                    return
                self._free_slots.append(evicted)
                yield evicted
                continue  # what was evicted may have been the match
            self.waiting.popleft()
            slot = self._free_slots.pop()
            shared = match.length if match else 0
            if match:
                self.cache.share(match.holder, slot, shared)
            sequence.slot, sequence.decoded = slot, shared
            self.running.append(sequence)
            yield Admission(sequence, slot, match.holder if match else None, shared)

    def plan(self) -> list[Slice]:
        """The next batch: decoding sequences first, then prefills in order of arrival."""
        slices: list[Slice] = []
        room = self._batch_tokens
        decoding = [sequence for sequence in self.running if sequence.decoding]
        for sequence in decoding:
            if part := self._slice(sequence, room):
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

    def make_room(self, slices: list[Slice]) -> Iterator[int]:
        """Free cells until the batch fits. Yields slot ids that the caller must free.

        Slices of sequences that were paused on the way need none and must not be run. Stops early
        when one sequence alone is left: it always fits.
        """
        while self.cache.free_cells < sum(
            part.size for part in slices if part.sequence.slot is not None
        ):
            evicted = self.cache.evict()
            if evicted is None and len(self.running) > 1:
                evicted = self._pause_youngest()
            if evicted is None:
                return
            self._free_slots.append(evicted)
            yield evicted

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

    def _pause_youngest(self) -> int:
        sequence = self.running.pop()
        slot = sequence.slot
        assert slot is not None
        self._release(slot)
        sequence.pause()
        self.waiting.appendleft(sequence)
        return slot

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
            self.cache.retire(slot)
            return None
        self._release(slot)
        self._free_slots.append(slot)
        return slot

    def trim(self) -> Iterator[int]:
        """Let retired sequences go until they hold no more cells than they should.

        Attention goes over all cells up to the last one in use, whose ever they are: with 8,000
        idle ones a prefill takes half as long again (measured on a CPU). As many sequences as can
        run are kept whatever they hold, so that so many agents find their last turns. Yields slot
        ids that the caller must free.

        Attention adds up in the order of cells, and llama.cpp takes those first that are free
        lowest. So where the cells of a sequence have to stay `in_order`, all retired ones are let
        go at once, when nothing runs.
        """
        everything = self._in_order and self._overdue and not self.running
        while self.cache.retired and (everything or (self._overdue and not self._in_order)):
            evicted = self.cache.evict()
            assert evicted is not None
            self._free_slots.append(evicted)
            yield evicted

    @property
    def _overdue(self) -> bool:
        """Whether retired sequences should go."""
        if self._in_order and not self._free_slots:
            return True
        slots = {sequence.slot for sequence in self.running if sequence.slot is not None}
        idle = self.cache.used_cells - self.cache.cells_of(slots)
        return len(self.cache.retired) > self._max_sequences and idle > self._retired_cells

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
