from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from server.errors import SetupError, StoreFailed
from server.responses.database import Database, Gone, open_database
from server.responses.store import ResponseStore, open_store
from tests.fakes import WAIT_S
from tests.responses.test_database import BOUNDS, LIMITS, Clock, record
from tests.serving import settings


class HeldDatabase(Database):
    """One whose `get` waits until a test lets it go on."""

    def __init__(self) -> None:
        super().__init__(open_database(None, BOUNDS).connection, BOUNDS, Clock())
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def get(self, owner: str, id: str) -> dict[str, object]:
        self.entered.set()
        assert self.let_go.wait(WAIT_S)
        return super().get(owner, id)


async def test_the_event_loop_never_waits_for_the_disk() -> None:
    database = HeldDatabase()
    store = ResponseStore(database)
    await store.save(record("a"))
    reading = asyncio.ensure_future(store.get("", "a"))
    await asyncio.to_thread(database.entered.wait, WAIT_S)
    writing = asyncio.ensure_future(store.save(record("b")))  # waits its turn
    await asyncio.sleep(0)
    assert not reading.done()
    assert not writing.done()
    database.let_go.set()
    assert (await reading)["id"] == "a"
    await writing
    assert (await store.get("", "b"))["id"] == "b"
    store.close()


async def test_many_at_once_are_all_kept() -> None:
    store = open_store(settings())
    assert store is not None
    await asyncio.gather(*(store.save(record(str(n))) for n in range(100)))
    found = await asyncio.gather(*(store.get("", str(n)) for n in range(100)))
    assert [one["id"] for one in found] == [str(n) for n in range(100)]
    with pytest.raises(Gone):
        await store.conversation("", "none", **LIMITS)
    store.close()


async def test_what_goes_wrong_in_sqlite_is_an_error_of_ours() -> None:
    database = open_database(None, BOUNDS)
    store = ResponseStore(database)
    database.connection.execute("PRAGMA query_only = ON")  # as in a file that became read-only
    for work in (store.check_writable(), store.save(record("a")), store.delete("", "a")):
        with pytest.raises(StoreFailed, match="store: false") as caught:
            await work
        assert isinstance(caught.value.__cause__, sqlite3.Error)
    with pytest.raises(Gone):
        await store.get("", "a")
    store.close()


def test_off_is_no_store(tmp_path: Path) -> None:
    assert open_store(settings(responses_store="off")) is None
    with pytest.raises(SetupError):
        open_store(settings(responses_store=str(tmp_path)))


async def test_a_path_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    store = open_store(settings(responses_store=str(path)))
    assert store is not None
    await store.save(record("a"))
    store.close()
    again = open_store(settings(responses_store=str(path)))
    assert again is not None
    assert (await again.get("", "a"))["id"] == "a"
    again.close()
