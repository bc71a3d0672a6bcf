"""Where constraints are compiled, and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")

CACHED = 256  # compiled constraints that are kept, and prepared schemas
CACHED_SIZE = 8 << 20  # characters of what they were made from
STACK_BYTES = 256 << 20  # for compiling: the back end recurses as deep as a schema refers
LARGE = 24_000  # characters of a plan


class Lanes:
    """Two threads, one for large plans: what takes a second there keeps no ordinary plan waiting.

    Equal plans are compiled in the same lane, one after the other.
    """

    def __init__(self) -> None:
        self._small, self._large = _deep_pool("compile"), _deep_pool("compile-large")

    def submit(self, compile: Callable[[str], T], key: str) -> Future[T]:
        """Compile what the key says."""
        lane = self._large if len(key) > LARGE else self._small
        return lane.submit(compile, key)

    def close(self) -> None:
        for lane in (self._small, self._large):
            lane.shutdown(wait=False, cancel_futures=True)


def _deep_pool(name: str) -> ThreadPoolExecutor:
    """One thread with a stack of its own size, which the system only backs as far as it is used."""
    before = threading.stack_size(STACK_BYTES)
    try:
        pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        pool.submit(lambda: None).result()
    finally:
        threading.stack_size(before)
    return pool


class Cache(Generic[T]):
    """The values used last, by the text that they were made from. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()
        self._size = 0  # of all keys: what the values take grows with it

    def get(self, key: str) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, value: T) -> None:
        with self._lock:
            if key not in self._values:
                self._size += len(key)
            self._values[key] = value
            while len(self._values) > 1 and self._is_full():
                oldest, _ = self._values.popitem(last=False)
                self._size -= len(oldest)

    def _is_full(self) -> bool:
        return len(self._values) > CACHED or self._size > CACHED_SIZE
