"""How long a request may take in all, from when it was read to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from server.errors import TimedOut


@dataclass(frozen=True)
class Deadline:
    """`limit_s` seconds after `began_at` (of `time.perf_counter`); None: never."""

    limit_s: float | None
    began_at: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, asked_s: float | None, most_s: float) -> Deadline:
        """Of what a request asks for and the server's own limit (0: none) the earlier one."""
        limits = [limit for limit in (asked_s, most_s) if limit]
        return cls(min(limits, default=None))

    def error(self) -> TimedOut:
        """Says that it has passed."""
        return TimedOut(f"the request took longer than {self.limit_s:g} s")

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Cancels what is done within it when the time has passed. Raises TimedOut."""
        passed_s = time.perf_counter() - self.began_at
        left_s = None if self.limit_s is None else self.limit_s - passed_s
        try:
            async with asyncio.timeout(left_s):
                yield
        except TimeoutError:
            raise self.error() from None
