from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from server.engine.prefix_cache import Match, PrefixCache


def holding(**tokens: list[int]) -> PrefixCache:
    """A cache where sequence 1, 2, … computed these tokens, each on its own."""
    cache = PrefixCache(100)
    for sequence_id, run in enumerate(tokens.values(), start=1):
        cache.append(sequence_id, run)
    return cache


def test_nothing_is_found_in_an_empty_cache() -> None:
    cache = PrefixCache(10)
    assert cache.match([1, 2]) is None
    assert (cache.used_cells, cache.free_cells) == (0, 10)


def test_the_longest_prefix_is_found() -> None:
    cache = holding(a=[1, 2], b=[1, 2, 3, 4], c=[2])
    assert cache.match([1, 2, 3, 9]) == Match(2, 3)
    assert cache.match([2, 1]) == Match(3, 1)
    assert cache.match([9]) is None
    assert cache.match([]) is None


def test_the_longest_prefix_is_found_where_equal_tokens_are_held_twice() -> None:
    cache = holding(a=[1, 2, 9], b=[1, 2])
    cache.share(2, 3, 2)
    cache.append(3, [3, 4])  # below [1, 2] of b, a node of its own beside [1, 2, 9]
    assert cache.match([1, 2, 3, 4]) == Match(3, 4)


def test_shared_cells_count_once_and_last_until_the_last_holder_goes() -> None:
    cache = holding(a=[1, 2, 3])
    cache.share(1, 2, 2)
    cache.append(2, [8, 9])
    assert cache.used_cells == 5
    cache.release(1)
    assert cache.used_cells == 4
    assert cache.tokens(2) == [1, 2, 8, 9]
    cache.release(2)
    assert cache.used_cells == 0


def test_tokens_appended_after_sharing_are_not_the_others() -> None:
    cache = holding(a=[1, 2])
    cache.share(1, 2, 2)
    cache.append(1, [3])
    cache.append(2, [4])
    assert cache.tokens(1) == [1, 2, 3]
    assert cache.tokens(2) == [1, 2, 4]
    assert cache.match([1, 2, 4]) == Match(2, 3)


def test_truncating_keeps_what_others_hold() -> None:
    cache = holding(a=[1, 2, 3, 4])
    cache.share(1, 2, 3)
    cache.truncate(1, 1)
    assert cache.tokens(1) == [1]
    assert cache.tokens(2) == [1, 2, 3]
    assert cache.used_cells == 3
    cache.truncate(2, 0)
    assert cache.tokens(2) == []
    assert cache.used_cells == 1


def test_cells_of_several_sequences_count_shared_ones_once() -> None:
    cache = holding(a=[1, 2, 3])
    cache.share(1, 2, 2)
    cache.append(2, [7])
    assert cache.cells_of({1}) == 3
    assert cache.cells_of({2}) == 3
    assert cache.cells_of({1, 2}) == 4
    assert cache.cells_of(set()) == 0


def test_cells_of_a_match_that_are_held_anyway() -> None:
    cache = holding(a=[1, 2, 3, 4])
    cache.share(1, 2, 2)
    match = cache.match([1, 2, 3])
    assert match == Match(1, 3)
    assert cache.held(match, {2}) == 2
    assert cache.held(match, {1}) == 3
    assert cache.held(match, set()) == 0


def test_the_least_recently_used_is_evicted_first() -> None:
    cache = holding(a=[1], b=[2], c=[3])
    for sequence_id in (1, 2, 3):
        cache.retire(sequence_id)
    cache.match([1])  # used again
    assert [cache.evict() for _ in range(4)] == [2, 3, 1, None]
    assert cache.used_cells == 0


def test_using_a_prefix_of_many_keeps_their_order() -> None:
    cache = PrefixCache(100)
    cache.append(9, [1])
    for sequence_id in (7, 3, 5, 1):
        cache.share(9, sequence_id, 1)
        cache.append(sequence_id, [sequence_id])
        cache.retire(sequence_id)
    cache.match([1, 4])
    assert cache.retired == (7, 3, 5, 1)


def test_running_sequences_are_not_evicted() -> None:
    cache = holding(a=[1], b=[2])
    cache.retire(2)
    assert [cache.evict(), cache.evict()] == [2, None]
    assert cache.tokens(1) == [1]


def test_a_sequence_that_holds_nothing_is_unknown() -> None:
    cache = PrefixCache(10)
    for use in (cache.tokens, cache.release, cache.retire):
        with pytest.raises(KeyError):
            use(1)


def test_a_chain_of_any_depth_is_released() -> None:
    """An agent's thousand turns, each sharing the one before, are as many nodes."""
    cache = PrefixCache(2000)
    cache.append(0, [0])
    for turn in range(1, 1500):
        cache.share(turn - 1, turn, turn)
        cache.append(turn, [turn])
        cache.release(turn - 1)
    assert cache.used_cells == 1500
    cache.truncate(1499, 700)
    assert cache.used_cells == 700
    cache.release(1499)
    assert cache.used_cells == 0


Held = list[tuple[int, int]]  # token and number of the cell, by position

IDS = st.integers(0, 5)
RUNS = st.lists(st.integers(0, 2), min_size=1, max_size=6)  # few tokens: prefixes are often equal


class NaiveCache(RuleBasedStateMachine):
    """The cache against lists of numbered cells, under any order of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(1000)
        self.held: dict[int, Held] = {}
        self.retired: list[int] = []
        self.cells = 0

    def prefix_length(self, sequence_id: int, tokens: list[int]) -> int:
        length = 0
        for (held, _), token in zip(self.held[sequence_id], tokens, strict=False):
            if held != token:
                break
            length += 1
        return length

    def count(self, sequence_ids: set[int]) -> int:
        return len({cell for i in sequence_ids for _, cell in self.held.get(i, ())})

    @rule(sequence_id=IDS, tokens=RUNS)
    def append(self, sequence_id: int, tokens: list[int]) -> None:
        if sequence_id in self.retired:
            return
        self.cache.append(sequence_id, tokens)
        for token in tokens:
            self.held.setdefault(sequence_id, []).append((token, self.cells))
            self.cells += 1

    @rule(sequence_id=IDS, tokens=RUNS, holders=st.sets(IDS))
    def match_and_share(self, sequence_id: int, tokens: list[int], holders: set[int]) -> None:
        match = self.cache.match(tokens)
        lengths = {i: self.prefix_length(i, tokens) for i in self.held}
        longest = max(lengths.values(), default=0)
        if match is None:
            assert longest == 0
            return
        assert match.length == longest == lengths[match.holder]
        shared = self.held[match.holder][: match.length]
        of_others = {cell for i in holders for _, cell in self.held.get(i, ())}
        assert self.cache.held(match, holders) == sum(cell in of_others for _, cell in shared)
        used = [i for i in self.retired if self.held[i][: match.length] == shared]
        self.retired = [i for i in self.retired if i not in used] + used
        if sequence_id not in self.held:
            self.cache.share(match.holder, sequence_id, match.length)
            self.held[sequence_id] = shared[:]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        sequence_id = data.draw(st.sampled_from(sorted(self.held)))
        length = data.draw(st.integers(0, len(self.held[sequence_id])))
        if sequence_id in self.retired:
            return
        self.cache.truncate(sequence_id, length)
        del self.held[sequence_id][length:]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def retire(self, data: st.DataObject) -> None:
        sequence_id = data.draw(st.sampled_from(sorted(self.held)))
        if sequence_id not in self.retired:
            self.cache.retire(sequence_id)
            self.retired.append(sequence_id)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        sequence_id = data.draw(st.sampled_from(sorted(self.held)))
        self.cache.release(sequence_id)
        del self.held[sequence_id]
        self.retired = [i for i in self.retired if i != sequence_id]

    @rule()
    def evict(self) -> None:
        expected = self.retired.pop(0) if self.retired else None
        assert self.cache.evict() == expected
        if expected is not None:
            del self.held[expected]

    @invariant()
    def books_agree(self) -> None:
        assert self.cache.retired == tuple(self.retired)
        assert self.cache.used_cells == self.count(set(self.held))
        assert self.cache.used_cells + self.cache.free_cells == self.cache.capacity
        for sequence_id, held in self.held.items():
            assert self.cache.tokens(sequence_id) == [token for token, _ in held]
            assert self.cache.cells_of({sequence_id}) == len(held)
        even = {i for i in self.held if i % 2 == 0}
        assert self.cache.cells_of(even) == self.count(even)

    def teardown(self) -> None:
        for sequence_id in self.held:
            self.cache.release(sequence_id)
        assert self.cache.used_cells == 0
        assert self.cache.match([0]) is self.cache.match([1]) is self.cache.match([2]) is None


NaiveCache.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestNaiveCache = NaiveCache.TestCase
