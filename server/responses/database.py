"""Responses in SQLite, one call at a time: whose thread and whose error it is, `store.py` says.

A response is kept with its own input and output; the conversation before it is found by way of the
response that it went on from. Going on from a response counts as a use of all that are before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.errors import SetupError
from server.wire.body import JsonObject

DAY_S = 86_400.0
APPLICATION_ID = 0x43575250  # marks a file as ours
VERSION = 1

_SCHEMA = """
CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    previous TEXT,
    used_at REAL NOT NULL,
    size INTEGER NOT NULL,  -- bytes of the body and all items
    body TEXT NOT NULL      -- the response without its output
);
CREATE INDEX by_use ON responses (used_at, size);
CREATE TABLE items (
    response_id TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
    is_output INTEGER NOT NULL,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (response_id, is_output, place)
);
CREATE INDEX by_item ON items (id);
"""

_CHAIN = """
WITH RECURSIVE chain (id, previous, size, depth) AS (
    SELECT id, previous, size, 0 FROM responses WHERE id = :id AND owner = :owner
    UNION ALL
    SELECT r.id, r.previous, r.size, depth + 1 FROM responses r JOIN chain c ON r.id = c.previous
    WHERE r.owner = :owner AND depth < :deepest
)
SELECT id, previous, size FROM chain ORDER BY depth
"""


@dataclass(frozen=True)
class Bounds:
    """How much is kept, and for how long since its last use. `bytes` are of JSON text."""

    retention_days: float
    max_count: int
    max_bytes: int


@dataclass(frozen=True)
class Record:
    """A response to be kept. `body` is without its output; `given` are the items of its input."""

    id: str
    owner: str
    previous: str | None
    body: JsonObject
    given: tuple[JsonObject, ...]
    output: tuple[JsonObject, ...]


class Gone(Exception):
    """The response with this id is not there, or belongs to someone else."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class TooLong(Exception):
    """The conversation has more responses or bytes than the caller takes."""


class Database:
    """Raises sqlite3.Error for what goes wrong in SQLite, with the transaction undone."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        bounds: Bounds,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.connection = connection
        self._bounds = bounds
        self._clock = clock

    def conversation(
        self, owner: str, id: str, *, max_responses: int, max_bytes: int
    ) -> list[JsonObject]:
        """The items of the response and all before it, oldest first. Raises Gone, TooLong."""
        with self._writing():
            self._drop_expired()
            values = {"id": id, "owner": owner, "deepest": max_responses}
            chain = self.connection.execute(_CHAIN, values).fetchall()
            if len(chain) > max_responses or sum(size for _, _, size in chain) > max_bytes:
                raise TooLong
            missing = chain[-1][1] if chain else id
            if missing is not None:
                raise Gone(missing)
            now = self._clock()
            ids = [one for one, _, _ in reversed(chain)]
            self.connection.executemany(
                "UPDATE responses SET used_at = ? WHERE id = ?", [(now, one) for one in ids]
            )
            return [item for one in ids for item in (*self._items(one, 0), *self._items(one, 1))]

    def find_items(self, owner: str, ids: Sequence[str]) -> dict[str, JsonObject]:
        """The items with these ids that the owner has seen, as they were kept last."""
        found = {}
        for id in ids:
            row = self.connection.execute(
                "SELECT i.body FROM items i JOIN responses r ON r.id = i.response_id"
                " WHERE i.id = ? AND r.owner = ? AND r.used_at >= ?"
                " ORDER BY r.rowid DESC LIMIT 1",
                (id, owner, self._oldest()),
            ).fetchone()
            if row is not None:
                found[id] = json.loads(row[0])
        return found

    def check_writable(self) -> None:
        """Raises what writing would raise, as far as SQLite can tell before."""
        with self._writing():
            self._drop_expired()

    def save(self, record: Record) -> None:
        """Keep a response, and drop those whose last use is longest ago if there are too many."""
        body = _to_text(record.body)
        items = [
            (record.id, is_output, place, item["id"], _to_text(item))
            for is_output, kept in enumerate((record.given, record.output))
            for place, item in enumerate(kept)
        ]
        size = len(body.encode()) + sum(len(text.encode()) for *_, text in items)
        with self._writing():
            self._drop_expired()
            self.connection.execute(
                "INSERT INTO responses (id, owner, previous, used_at, size, body)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (record.id, record.owner, record.previous, self._clock(), size, body),
            )
            self.connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", items)
            self._drop_surplus(record.id)

    def get(self, owner: str, id: str) -> JsonObject:
        """The response with its output. Raises Gone."""
        row = self.connection.execute(
            "SELECT body FROM responses WHERE id = ? AND owner = ? AND used_at >= ?",
            (id, owner, self._oldest()),
        ).fetchone()
        if row is None:
            raise Gone(id)
        return {**json.loads(row[0]), "output": self._items(id, 1)}

    def given(self, owner: str, id: str) -> list[JsonObject]:
        """The items of a response's input, in their order. Raises Gone."""
        self.get(owner, id)
        return self._items(id, 0)

    def delete(self, owner: str, id: str) -> None:
        """Raises Gone."""
        with self._writing():
            self._drop_expired()
            deleted = self.connection.execute(
                "DELETE FROM responses WHERE id = ? AND owner = ?", (id, owner)
            )
            if deleted.rowcount == 0:
                raise Gone(id)

    def close(self) -> None:
        self.connection.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """All or nothing, with nobody else writing meanwhile."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:  # SQLite itself undoes it where the disk is full
                self.connection.execute("ROLLBACK")
            raise

    def _items(self, id: str, is_output: int) -> list[JsonObject]:
        rows = self.connection.execute(
            "SELECT body FROM items WHERE response_id = ? AND is_output = ? ORDER BY place",
            (id, is_output),
        )
        return [json.loads(body) for (body,) in rows]

    def _oldest(self) -> float:
        return self._clock() - self._bounds.retention_days * DAY_S

    def _drop_expired(self) -> None:
        self.connection.execute("DELETE FROM responses WHERE used_at < ?", (self._oldest(),))

    def _drop_surplus(self, kept: str) -> None:
        count, size = self.connection.execute(
            "SELECT COUNT(*), SUM(size) FROM responses"
        ).fetchone()
        oldest = self.connection.execute(
            "SELECT id, size FROM responses WHERE id <> ? ORDER BY used_at, rowid", (kept,)
        )
        surplus = []
        while count > self._bounds.max_count or size > self._bounds.max_bytes:
            row = oldest.fetchone()
            if row is None:
                break
            surplus.append((row[0],))
            count, size = count - 1, size - row[1]
        self.connection.executemany("DELETE FROM responses WHERE id = ?", surplus)


def open_database(
    path: Path | None, bounds: Bounds, clock: Callable[[], float] = time.time
) -> Database:
    """The database in a file, which is made if need be, or in memory if there is no path.

    Raises SetupError for a file that cannot be used.
    """
    connection: sqlite3.Connection | None = None
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # others need not read it
        connection = sqlite3.connect(
            path or ":memory:", isolation_level=None, check_same_thread=False, timeout=10
        )
        _prepare(connection)
    except (OSError, sqlite3.Error, _NotOurs) as exc:
        if connection is not None:
            connection.close()
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise SetupError(
            f"responses cannot be kept in {path}: {why}",
            hint="Move the file away or give another --responses-store, or `memory` or `off`.",
        ) from None
    return Database(connection, bounds, clock)


class _NotOurs(Exception):
    """A database, but of another program or another version."""


def _prepare(connection: sqlite3.Connection) -> None:
    def value_of(pragma: str) -> Any:
        return connection.execute(f"PRAGMA {pragma}").fetchone()[0]

    marks = value_of("application_id"), value_of("user_version")
    is_new = marks == (0, 0) and value_of("schema_version") == 0
    if is_new:
        connection.execute("PRAGMA auto_vacuum = FULL")  # before the first table: the file shrinks
    elif marks != (APPLICATION_ID, VERSION):
        raise _NotOurs("it is a database of another program or version")
    elif (found := value_of("quick_check(1)")) != "ok":
        raise _NotOurs(f"it is damaged ({found})")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # what was deleted is gone from the file too
    connection.execute("BEGIN IMMEDIATE")  # fails here and now where nothing can be written
    if is_new:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _to_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", errors="replace").decode()  # half a surrogate pair is no text
