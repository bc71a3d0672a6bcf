"""A job under way, seen from asyncio: the bridge from the engine's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from server.engine.sequence import CancelReason, Job, Sequence, Update


class Generation:
    """A job under way, seen from asyncio."""

    def __init__(self, job: Job, wake: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._updates: asyncio.Queue[Update] = asyncio.Queue()
        self._wake = wake
        self.sequence = Sequence(job, self._tell)

    def _tell(self, update: Update) -> None:
        try:
            self._loop.call_soon_threadsafe(self._updates.put_nowait, update)
        except RuntimeError:  # the loop is closed: nobody listens any more
            self.sequence.cancelled = "abort"

    async def updates(
        self, timeout_s: float | None = None, *, since: float | None = None
    ) -> AsyncIterator[Update]:
        """Updates as they come; the last one has an end.

        Raises what the job failed with, and TimeoutError `timeout_s` after `since` (of
        `time.perf_counter`), or after it was submitted.
        """
        began = self.sequence.timings.submitted if since is None else since
        while True:
            left_s = None if timeout_s is None else began + timeout_s - time.perf_counter()
            update = await asyncio.wait_for(self._updates.get(), left_s)
            if update.error is not None:
                raise update.error
            yield update
            if update.end is not None:
                return

    def cancel(self, reason: CancelReason = "abort") -> None:
        """End the job within one step of the engine, if it has not ended yet."""
        self.sequence.cancelled = self.sequence.cancelled or reason
        self._wake()
