"""Who gets how much of a batch, and what of the cells stays for later."""

from __future__ import annotations

import numpy as np

from server.engine.host_cache import HostCache, Kept
from server.engine.sequence import Job, Sequence
from server.engine.timings import Timings
from tests.engine.helpers import GREEDY, Free
from tests.engine.test_scheduler import BATCH, CHUNK, Driver, counts, sequence


def keep(driver: Driver, host: HostCache) -> None:
    """What was let go, in memory, as the engine does it."""
    for freed in driver.freed:
        host.put(Kept(freed.tokens, np.zeros(1, np.uint8)))
    driver.freed.clear()


def test_no_running_sequence_is_paused_for_a_draft() -> None:
    driver = Driver(capacity=20, draft_below=2)
    one, two = sequence([1] * 8), sequence([2] * 8)
    driver.add(one, two)
    driver.step()
    for each in (one, two):
        each.draft = (6, 7, 8)
    slices = driver.scheduler.plan()
    assert all(part.draft for part in slices)
    assert list(driver.scheduler.make_room(slices)) == []
    assert [part.size for part in slices] == [1, 1]
    assert driver.scheduler.running == [one, two]


def test_a_forced_run_goes_as_one_slice() -> None:
    driver = Driver()
    one, other = sequence([1] * 2), sequence([2] * 2)
    driver.add(one, other)
    driver.step()
    one.tokens += [7] * 3
    assert counts(driver.step()) == {one: 4, other: 1}
    one.tokens += [7] * 40  # more than a chunk: it takes turns with itself
    assert counts(driver.step()) == {one: CHUNK, other: 1}
    assert not driver.batches[-1][0].completes


def test_a_forced_run_alone_may_fill_the_batch() -> None:
    driver = Driver(capacity=200)
    forced = sequence([1] * 4, max_tokens=50)
    driver.add(forced)
    driver.step()
    forced.tokens += [7] * 40
    assert counts(driver.scheduler.plan()) == {forced: BATCH}


def test_what_cannot_be_kept_in_memory_stays_in_cells() -> None:
    """Two agents in turn, of which memory can keep one."""
    host = HostCache(30)
    driver = Driver(capacity=200, max_sequences=2, retired_cells=0, host=host)
    for token in (1, 2):
        driver.add(sequence([token] * 20, max_tokens=1))
        driver.run()
        keep(driver, host)
    assert len(driver.scheduler.cache.retired) == 1
    for token in (1, 2, 1, 2):
        again = sequence([token] * 20, max_tokens=1)
        driver.add(again)
        [admission] = driver.admit()
        assert admission.shared == 19
        driver.run()


def test_what_is_older_than_all_that_can_run_may_leave_memory() -> None:
    host = HostCache(30)
    driver = Driver(capacity=200, max_sequences=2, retired_cells=0, host=host)
    for token in range(1, 9):
        driver.add(sequence([token] * 8, max_tokens=1))
        driver.run()
        keep(driver, host)
    assert len(host.kept) == 3
    assert driver.scheduler.cache.used_cells == 0


def test_in_order_others_come_in_while_something_idles() -> None:
    driver = Driver(capacity=100, retired_cells=0, in_order=True)
    long, short, late = (sequence([token] * 4, max_tokens=9) for token in (1, 2, 3))
    driver.add(long, short)
    driver.step()
    driver.scheduler.retire(short, keep=True)
    driver.add(late)
    driver.step()
    assert driver.scheduler.running == [long, late]


def test_in_order_nothing_is_let_go_while_others_run() -> None:
    driver = Driver(capacity=40, retired_cells=0, in_order=True)
    long, short, late = (sequence([token] * 12, max_tokens=9) for token in (1, 2, 3))
    driver.add(long, short)
    driver.step()
    driver.scheduler.retire(short, keep=True)
    driver.add(late)  # its 12 do not fit beside 12 and 13 with what is to come
    for _ in range(4):
        driver.step()
    assert driver.freed == []
    driver.run()


def test_what_goes_on_from_an_earlier_job_waits_at_the_head() -> None:
    driver = Driver(queue_length=1, max_sequences=1)
    running, waiting = sequence([1]), sequence([2])
    driver.add(running)
    driver.admit()
    driver.add(waiting)
    further = Sequence(Job([3], Free(), GREEDY, 8, before=Timings()), tell=lambda update: None)
    driver.add(further)  # no 429 after it has waited once
    assert list(driver.scheduler.waiting) == [further, waiting]
