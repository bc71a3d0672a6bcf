from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.host_cache import HostCache
from server.engine.prefix_cache import PrefixCache
from server.engine.scheduler import Admission, Freed, Scheduler, Slice
from server.engine.sequence import Job, Sequence
from server.errors import Busy
from tests.engine.helpers import GREEDY, Free

BATCH, CHUNK = 16, 4


def sequence(prompt: list[int], max_tokens: int = 8) -> Sequence:
    return Sequence(Job(prompt, Free(), GREEDY, max_tokens), tell=lambda update: None)


@dataclass
class Driver:
    """Steps a scheduler as the engine does, with a model that says only 0."""

    capacity: int = 100
    max_sequences: int = 3
    cached_sequences: int = 2
    retired_cells: int | None = None
    queue_length: int = 100
    draft_below: int = 0
    in_order: bool = False
    host: HostCache | None = None
    scheduler: Scheduler = field(init=False)
    batches: list[list[Slice]] = field(default_factory=list)
    freed: list[Freed] = field(default_factory=list)
    streaming: list[Sequence] = field(default_factory=list)  # said something since they have a slot

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(
            PrefixCache(self.capacity),
            max_sequences=self.max_sequences,
            slots=self.max_sequences + self.cached_sequences,
            batch_tokens=BATCH,
            prefill_chunk=CHUNK,
            queue_length=self.queue_length,
            reuse_prefixes=self.cached_sequences > 0,
            retired_cells=self.retired_cells,
            draft_below=self.draft_below,
            in_order=self.in_order,
            host=self.host,
        )

    def add(self, *sequences: Sequence) -> None:
        for one in sequences:
            self.scheduler.add(one)

    def admit(self) -> list[Admission]:
        actions = list(self.scheduler.admit())
        return [action for action in actions if isinstance(action, Admission)]

    def step(self) -> list[Slice]:
        """One step; returns what was decoded."""
        self.admit()
        slices = self.scheduler.plan()
        self.freed += self.scheduler.make_room(slices)
        slices = [part for part in slices if part.sequence.slot is not None]
        for part in slices:
            completes = part.completes
            self.scheduler.decoded(part)
            if completes:
                self.streaming.append(part.sequence)
                if part.sequence.append(0):
                    self.scheduler.retire(part.sequence, keep=True)
                    self.freed += self.scheduler.trim()
        self.check_books()
        self.batches.append(slices)
        self.streaming = [one for one in self.scheduler.running if one in self.streaming]
        return slices

    def check_books(self) -> None:
        scheduler, cache = self.scheduler, self.scheduler.cache
        running = [one.slot for one in scheduler.running if one.slot is not None]
        slots = [*scheduler._free_slots, *cache.retired, *running]
        assert sorted(slots) == list(range(self.max_sequences + self.cached_sequences))
        assert len(scheduler.running) == len(running) <= self.max_sequences
        assert cache.used_cells <= cache.capacity
        assert cache.used_cells == cache.cells_of({*cache.retired, *running})
        for one in scheduler.running:
            if one.slot is not None and one.decoded:
                assert cache.tokens(one.slot) == one.tokens[: one.decoded]
        assert all(one.slot is None and one.decoded == 0 for one in scheduler.waiting)

    def run(self, *, limit: int = 2000) -> None:
        while self.scheduler.has_work:
            limit -= 1
            assert limit > 0, "no end"
            self.step()


def counts(slices: list[Slice]) -> dict[Sequence, int]:
    return {part.sequence: part.count for part in slices}


def test_first_come_first_served() -> None:
    driver = Driver(max_sequences=2)
    first, second, third = (sequence([token] * 3) for token in (1, 2, 3))
    driver.add(first, second, third)
    assert [admission.sequence for admission in driver.admit()] == [first, second]
    driver.scheduler.retire(first, keep=True)
    assert [admission.sequence for admission in driver.admit()] == [third]


def test_a_full_queue_is_busy() -> None:
    driver = Driver(queue_length=2, max_sequences=1)
    driver.add(*(sequence([token]) for token in (1, 2, 3)))  # one of them will not wait
    with pytest.raises(Busy, match="3 requests are waiting") as raised:
        driver.add(sequence([4]))
    assert raised.value.retry_after_s > 0
    driver.admit()
    with pytest.raises(Busy, match="2 requests are waiting"):
        driver.add(sequence([4]))


def test_a_lone_prefill_may_fill_the_batch() -> None:
    driver = Driver()
    one = sequence([1] * 40)
    driver.add(one)
    assert [counts(driver.step()) for _ in range(3)] == [{one: 16}, {one: 16}, {one: 8}]


def test_prefills_share_a_batch_in_order_of_arrival() -> None:
    driver = Driver()
    first, second, third = (sequence([token] * 10) for token in (1, 2, 3))
    driver.add(first, second, third)
    assert counts(driver.step()) == {first: 10, second: 6}


def test_decoding_goes_first_and_prefills_by_chunks() -> None:
    driver = Driver()
    decoding = sequence([1] * 4)
    driver.add(decoding)
    driver.step()
    long, longer = sequence([2] * 6), sequence([3] * 30)
    driver.add(long, longer)
    steps = [list(counts(driver.step()).items()) for _ in range(3)]
    assert steps == [
        [(decoding, 1), (long, 4)],
        [(decoding, 1), (long, 2), (longer, 2)],  # a chunk for all prefills together
        [(decoding, 1), (long, 1), (longer, 4)],
    ]


def test_a_prefix_is_shared_and_one_token_always_left() -> None:
    driver = Driver()
    first = sequence([1, 2, 3, 4])
    driver.add(first)
    driver.step()
    same, longer = sequence([1, 2, 3, 4]), sequence([1, 2, 3, 4, 5])
    driver.add(same, longer)
    found = [(one.source, one.shared, one.sequence.decoded) for one in driver.admit()]
    assert found == [(first.slot, 3, 3), (first.slot, 4, 4)]
    assert driver.scheduler.cache.used_cells == 4


def test_without_reuse_nothing_is_shared_or_kept() -> None:
    driver = Driver(cached_sequences=0)
    driver.add(sequence([1, 2, 3], 1))
    driver.run()
    assert driver.scheduler.cache.used_cells == 0
    driver.add(sequence([1, 2, 3]))
    assert [(one.source, one.shared) for one in driver.admit()] == [(None, 0)]


def test_a_retired_prefix_is_evicted_for_its_slot() -> None:
    driver = Driver(max_sequences=1, cached_sequences=1)
    for token in (1, 2):
        driver.add(sequence([token] * 3, 1))
        driver.run()
    driver.add(sequence([3] * 3, 1))
    freed, admission = driver.scheduler.admit()
    assert isinstance(admission, Admission)
    assert freed == Freed(admission.slot, [1] * 3)
    assert driver.scheduler.cache.match([1]) is None
    assert driver.scheduler.cache.match([2]) is not None


def test_the_prefix_that_is_about_to_be_shared_is_not_evicted_for_a_slot() -> None:
    driver = Driver(max_sequences=1, cached_sequences=1)
    for token in (1, 2):
        driver.add(sequence([token] * 3, 1))
        driver.run()
    driver.add(sequence([1] * 4, 1))  # the oldest one is what it needs
    assert [admission.shared for admission in driver.admit()] == [3]


def test_room_is_made_by_eviction_before_pausing() -> None:
    driver = Driver(capacity=20)
    driver.add(sequence([1] * 8, 1))
    driver.run()
    second, third = sequence([2] * 8), sequence([3] * 8)
    driver.add(second, third)
    driver.step()
    assert driver.scheduler.running == [second, third]
    assert driver.scheduler.cache.retired == ()


def test_the_youngest_is_paused_and_resumed_first() -> None:
    driver = Driver(capacity=20, max_sequences=2)
    old, young, waiting = sequence([1] * 7, 12), sequence([2] * 7, 12), sequence([3] * 2, 2)
    driver.add(old, young, waiting)
    while young in driver.scheduler.running or not driver.batches:
        driver.step()
    assert driver.scheduler.running == [old]
    assert (young.slot, young.decoded) == (None, 0)
    output = young.output_tokens
    assert output > 0
    while old in driver.scheduler.running:
        driver.step()
    assert waiting.output_tokens == 0
    assert [admission.sequence for admission in driver.admit()] == [young, waiting]
    driver.run()
    assert (young.output_tokens, waiting.output_tokens) == (12, 2)
    assert young.tokens[:7] == [2] * 7


def test_no_more_are_paused_than_needed() -> None:
    driver = Driver(capacity=36)
    first, second = sequence([1] * 15, 20), sequence([2] * 7, 20)
    driver.add(first, second)
    for _ in range(3):
        driver.step()
    third = sequence([3] * 10)
    driver.add(third)
    driver.step()
    first.tokens += [7] * 7
    assert counts(driver.scheduler.plan()) == {first: 4, second: 1, third: 4}
    free = driver.scheduler.cache.free_cells
    assert 5 <= free < 9  # enough for two, not for all
    driver.step()
    assert driver.scheduler.running == [first, second]


def test_a_paused_sequence_resumes_without_stalling_the_others() -> None:
    driver = Driver(capacity=60)
    old, young = sequence([1] * 4, 30), sequence([2] * 4, 30)
    driver.add(old, young)
    for _ in range(12):
        driver.step()
    paused = driver.scheduler._pause_youngest()
    assert paused.tokens == [2] * 4 + [0] * 11
    assert young.output_tokens == 12
    assert counts(driver.step()) == {old: 1, young: CHUNK}
    assert counts(driver.step()) == {old: 1, young: CHUNK}  # its output is prefilled too
    driver.run()
    assert young.output_tokens == 30


def test_what_does_not_fit_beside_running_prefills_waits() -> None:
    driver = Driver(capacity=40)
    first, second = sequence([1] * 30, 1), sequence([2] * 30, 1)
    driver.add(first, second)
    assert [admission.sequence for admission in driver.admit()] == [first]
    driver.run()
    assert driver.freed  # the first one's cells
    assert second.output_tokens == 1


def test_shared_cells_that_only_a_retired_sequence_holds_need_room_too() -> None:
    driver = Driver(capacity=40)
    driver.add(sequence([1] * 15, 1))
    driver.run()
    running = sequence([2] * 20, 10)
    driver.add(running)
    driver.step()
    driver.step()
    driver.add(sequence([1] * 20))  # 15 of them are there, and would have to stay
    assert driver.admit() == []
    driver.add(sequence([2] * 18))
    driver.scheduler.waiting.rotate(1)
    assert [admission.shared for admission in driver.admit()] == [17]  # held by `running` anyway


def test_retiring_what_waits_takes_it_from_the_queue() -> None:
    driver = Driver(max_sequences=1)
    running, waiting = sequence([1]), sequence([2])
    driver.add(running, waiting)
    driver.admit()
    assert driver.scheduler.retire(waiting, keep=True) is None
    assert list(driver.scheduler.waiting) == []


def test_retiring_what_holds_nothing_frees_its_slot() -> None:
    driver = Driver()
    one = sequence([1])
    driver.add(one)
    slot = driver.admit()[0].slot
    assert driver.scheduler.retire(one, keep=True) == slot
    driver.check_books()


def test_what_idles_goes_when_it_holds_too_much() -> None:
    driver = Driver(max_sequences=1, cached_sequences=4, retired_cells=25)
    for token in range(1, 5):
        driver.add(sequence([token] * 10, max_tokens=1))
        driver.run()
    # Two hold 20 cells.
    assert len(driver.scheduler.cache.retired) == 2
    driver.add(sequence([3] * 10, max_tokens=1))
    driver.run()
    assert driver.batches[-1][0].count == 1  # it was among them


def test_as_many_as_can_run_are_kept_whatever_they_hold() -> None:
    driver = Driver(max_sequences=2, cached_sequences=4, retired_cells=0)
    for token in range(1, 5):
        driver.add(sequence([token] * 10, max_tokens=1))
        driver.run()
    assert len(driver.scheduler.cache.retired) == 2
    assert driver.freed


def test_reset_gives_back_all_slots_and_cells() -> None:
    driver = Driver()
    driver.add(sequence([1] * 3, 1))
    driver.run()
    running = [sequence([2] * 3), sequence([1] * 3)]
    driver.add(*running)
    driver.step()
    assert driver.scheduler.reset() == running
    assert driver.scheduler.cache.used_cells == 0
    driver.check_books()


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 12),  # steps before it comes
        st.integers(0, 2),  # its tokens
        st.integers(1, 20),  # length of the prompt
        st.integers(1, 12),  # and of the output
        st.sampled_from([None, None, None, 1, 5]),  # steps after which it is cancelled
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(ARRIVALS, st.integers(32, 70), st.integers(1, 4), st.integers(0, 3), st.integers(0, 40))
def test_every_sequence_finishes(
    arrivals: list[tuple[int, int, int, int, int | None]],
    capacity: int,
    max_sequences: int,
    cached_sequences: int,
    retired_cells: int,
) -> None:
    """Whatever comes when, in however few cells: all finish, and the books are right throughout."""
    driver = Driver(capacity, max_sequences, cached_sequences, retired_cells)
    sequences: list[Sequence] = []
    for pause, token, prompt, output, cancelled in arrivals:
        for _ in range(pause):
            driver.step()
        one = sequence([token] * prompt, output)
        driver.add(one)
        sequences.append(one)
        if cancelled is not None:
            for _ in range(cancelled):
                driver.step()
            if one in (*driver.scheduler.running, *driver.scheduler.waiting):
                driver.scheduler.retire(one, keep=True)
                driver.freed += driver.scheduler.trim()
                sequences.remove(one)
            driver.check_books()
    driver.run()
    for one in sequences:
        assert one.output_tokens == one.job.max_tokens


@settings(max_examples=60, deadline=None)
@given(ARRIVALS)
def test_running_streams_wait_for_one_chunk_at_most(
    arrivals: list[tuple[int, int, int, int, int | None]],
) -> None:
    """In every step that prefills, whatever decodes gets its turn, and prefills only a chunk."""
    driver = Driver(capacity=60, max_sequences=4)
    for pause, token, prompt, output, _ in arrivals:
        driver.add(sequence([token] * prompt, output))
        for _ in range(pause):
            _step_and_check_chunk(driver)
    while driver.scheduler.has_work:
        _step_and_check_chunk(driver)


def _step_and_check_chunk(driver: Driver) -> None:
    streaming = list(driver.streaming)
    parts = counts(driver.step())
    paused = [one for one in streaming if one in driver.scheduler.waiting]
    assert all(one in parts or one in paused for one in streaming)
    if streaming:
        assert sum(count for one, count in parts.items() if one not in streaming) <= CHUNK


def test_a_prefix_that_a_running_prefill_will_have_soon_is_waited_for() -> None:
    driver = Driver(capacity=400, max_sequences=4)
    shared = list(range(100))
    first, second = sequence([*shared, 200]), sequence([*shared, 201])
    other = sequence(list(range(300, 330)))
    driver.add(first, second, other)
    driver.admit()
    assert driver.scheduler.running == [first]
    while first.decoded < len(shared):
        driver.step()
    admitted = {one.sequence: one.shared for one in driver.admit()}
    assert admitted[second] == len(shared)
    assert other in driver.scheduler.running
