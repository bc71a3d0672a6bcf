"""What the scheduler decided about KV cells, done to them; and where they are kept meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from server.engine.cache_file import CacheFile, Warmth
from server.engine.host_cache import HostCache, Kept
from server.engine.runner import Runner
from server.engine.scheduler import Admission, Freed, Scheduler

LEAST_KEPT = 16  # tokens of a prefix that is worth a copy in memory


class Cells:
    """Called by the engine's thread alone."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        host: HostCache | None,
        cache_file: CacheFile | None,
    ) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._host = host
        self._cache_file = cache_file

    def share(self, admission: Admission) -> None:
        """Give a sequence what it was admitted with."""
        slot, shared = admission.slot, admission.shared
        if admission.source is not None:
            self._runner.copy_prefix(admission.source, slot, shared)
        elif admission.kept is not None:
            if self._runner.restore_sequence(slot, admission.kept.state):
                self._runner.cut(slot, shared)
            else:
                self._scheduler.lost(admission)

    def free(self, freed: Iterable[Freed]) -> None:
        """Let cells go, and keep elsewhere what they hold."""
        for one in freed:
            if self._host and len(one.tokens) >= LEAST_KEPT and not self._host.covers(one.tokens):
                self._host.put(Kept(one.tokens, self._runner.save_sequence(one.slot)))
            self._runner.cut(one.slot, 0)

    def load(self) -> None:
        """Take over what an earlier run has left in the cache file."""
        warmth = self._cache_file.load() if self._cache_file else None
        if warmth and self._runner.restore(warmth.state):
            self._scheduler.restore(warmth.books)

    def save(self) -> None:
        """Leave all that cells can hold in the cache file. Nothing may run."""
        if self._cache_file is None:
            return
        for kept in reversed(self._host.kept if self._host else ()):
            slot = self._scheduler.adopt(kept)
            if slot is not None and not self._runner.restore_sequence(slot, kept.state):
                self._scheduler.cache.release(slot)
        if self._scheduler.cache.used_cells:
            self._cache_file.save(Warmth(self._scheduler.cache.books(), self._runner.save()))
