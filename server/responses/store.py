"""The store of responses for the event loop: one thread has the database, nobody else waits."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from server.config import Settings
from server.errors import StoreFailed
from server.responses.database import Bounds, Database, Record, open_database
from server.wire.body import JsonObject

log = logging.getLogger(__name__)

T = TypeVar("T")


class ResponseStore:
    """As `Database`, without blocking. Raises StoreFailed where SQLite fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="responses")

    async def conversation(
        self, owner: str, id: str, *, max_responses: int, max_bytes: int
    ) -> list[JsonObject]:
        return await self._run(
            lambda: self._database.conversation(
                owner, id, max_responses=max_responses, max_bytes=max_bytes
            )
        )

    async def find_items(self, owner: str, ids: Sequence[str]) -> dict[str, JsonObject]:
        return await self._run(lambda: self._database.find_items(owner, ids))

    async def check_writable(self) -> None:
        await self._run(self._database.check_writable)

    async def save(self, record: Record) -> None:
        await self._run(lambda: self._database.save(record))

    async def get(self, owner: str, id: str) -> JsonObject:
        return await self._run(lambda: self._database.get(owner, id))

    async def given(self, owner: str, id: str) -> list[JsonObject]:
        return await self._run(lambda: self._database.given(owner, id))

    async def delete(self, owner: str, id: str) -> None:
        await self._run(lambda: self._database.delete(owner, id))

    def close(self) -> None:
        """Finish what was begun; nothing may come later."""
        self._thread.shutdown(wait=True)
        self._database.close()

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as exc:
            log.error("the store of responses failed: %s", exc)
            raise StoreFailed(
                f"the store of responses failed: {exc}; ask with `store: false` to do without it"
            ) from exc


def open_store(settings: Settings) -> ResponseStore | None:
    """The store that the settings name, None where it is off. Raises SetupError."""
    where = settings.responses_store
    if where == "off":
        return None
    bounds = Bounds(
        retention_days=settings.responses_retention_days,
        max_count=settings.responses_max_count,
        max_bytes=settings.responses_max_bytes,
    )
    path = None if where == "memory" else Path(where).expanduser()
    return ResponseStore(open_database(path, bounds))
