from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.errors import SetupError
from server.responses.database import (
    DAY_S,
    Bounds,
    Database,
    Gone,
    Record,
    TooLong,
    open_database,
)

BOUNDS = Bounds(retention_days=1, max_count=100, max_bytes=1_000_000)
LIMITS: Any = {"max_responses": 50, "max_bytes": 1_000_000}


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "file"])
def database(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Database]:
    path = tmp_path / "responses.db" if request.param == "file" else None
    made = open_database(path, BOUNDS, clock)
    yield made
    made.close()


def item(id: str, text: str = "x") -> dict[str, Any]:
    return {"id": id, "type": "message", "content": text}


def record(id: str, previous: str | None = None, owner: str = "", text: str = "x") -> Record:
    return Record(
        id, owner, previous, {"id": id}, (item(f"in-{id}", text),), (item(f"out-{id}", text),)
    )


def ids(database: Database, id: str, owner: str = "") -> list[str]:
    return [one["id"] for one in database.conversation(owner, id, **LIMITS)]


def kept(database: Database) -> set[str]:
    return {id for (id,) in database.connection.execute("SELECT id FROM responses")}


def test_what_was_saved_is_there(database: Database) -> None:
    text = "Grüße 你好 🤔 \u2028 'quoted' \x00"
    database.save(record("a", text=text))
    assert database.get("", "a") == {"id": "a", "output": [item("out-a", text)]}
    assert database.given("", "a") == [item("in-a", text)]
    assert database.find_items("", ["out-a", "in-a", "none"]) == {
        "out-a": item("out-a", text),
        "in-a": item("in-a", text),
    }


def test_a_conversation_is_all_that_came_before_oldest_first(database: Database) -> None:
    for id, previous in (("a", None), ("b", "a"), ("c", "b"), ("other", "a")):
        database.save(record(id, previous))
    assert ids(database, "c") == ["in-a", "out-a", "in-b", "out-b", "in-c", "out-c"]
    assert ids(database, "other") == ["in-a", "out-a", "in-other", "out-other"]


def test_what_is_someone_elses_is_not_there(database: Database) -> None:
    database.save(record("a", owner="me"))
    database.save(record("b", "a", owner="you"))
    for call in (
        lambda: database.get("you", "a"),
        lambda: database.given("you", "a"),
        lambda: database.delete("you", "a"),
        lambda: ids(database, "a", owner="you"),
        lambda: ids(database, "b", owner="you"),  # goes on from what is not theirs
        lambda: database.get("", "a"),
    ):
        with pytest.raises(Gone):
            call()
    assert database.find_items("you", ["in-a"]) == {}
    assert database.get("me", "a")


def test_what_was_deleted_is_gone_and_what_went_on_from_it_says_so(database: Database) -> None:
    database.save(record("a"))
    database.save(record("b", "a"))
    database.delete("", "a")
    assert database.find_items("", ["in-a", "out-a"]) == {}
    with pytest.raises(Gone, match="a"):
        database.get("", "a")
    with pytest.raises(Gone) as caught:
        ids(database, "b")
    assert caught.value.id == "a"
    with pytest.raises(Gone):
        database.delete("", "a")
    assert database.get("", "b")


def test_a_response_is_kept_so_long_after_its_last_use(database: Database, clock: Clock) -> None:
    for id, previous in (("a", None), ("b", "a"), ("alone", None)):
        database.save(record(id, previous))
    clock.now += 0.9 * DAY_S
    assert ids(database, "b")  # a use of both
    clock.now += 0.9 * DAY_S
    assert database.get("", "a")
    with pytest.raises(Gone):
        database.get("", "alone")
    assert database.find_items("", ["in-alone"]) == {}
    database.check_writable()
    assert kept(database) == {"a", "b"}
    clock.now += DAY_S + 1
    with pytest.raises(Gone):
        ids(database, "b")


def test_what_was_used_longest_ago_goes_first_where_there_are_too_many(
    clock: Clock, tmp_path: Path
) -> None:
    database = open_database(tmp_path / "r.db", Bounds(1, max_count=3, max_bytes=10_000), clock)
    for id in "abc":
        clock.now += 1
        database.save(record(id))
    clock.now += 1
    ids(database, "a")
    database.save(record("d"))
    assert kept(database) == {"a", "c", "d"}
    database.save(record("big", text="x" * 4700))  # twice, and so nearly all that there may be
    assert "big" in kept(database)
    assert kept(database) == {"a", "d", "big"}
    database.save(record("huge", text="x" * 9000))  # the one just saved stays in any case
    assert kept(database) == {"huge"}
    [(items,)] = database.connection.execute("SELECT COUNT(*) FROM items")
    assert items == 2
    database.close()


def test_a_conversation_has_its_bounds(database: Database) -> None:
    for n in range(5):
        database.save(record(str(n), str(n - 1) if n else None, text="x" * 1000))
    with pytest.raises(TooLong):
        database.conversation("", "4", max_responses=4, max_bytes=1_000_000)
    with pytest.raises(TooLong):
        database.conversation("", "4", max_responses=5, max_bytes=9000)
    assert len(database.conversation("", "4", max_responses=5, max_bytes=20_000)) == 10


def test_all_of_it_survives_a_restart(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "deep" / "er" / "responses.db"
    first = open_database(path, BOUNDS, clock)
    first.save(record("a"))
    first.save(record("b", "a"))
    # Not closed: as after a crash.
    second = open_database(path, BOUNDS, clock)
    assert ids(second, "b") == ["in-a", "out-a", "in-b", "out-b"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first.close()
    second.close()


def test_deleted_text_is_not_left_in_the_file(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    database = open_database(path, BOUNDS, clock)
    database.save(record("a", text="the secret word" * 500))
    database.delete("", "a")
    database.close()
    left = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert b"the secret word" not in left
    assert len(left) < 40_000


def test_a_failed_write_leaves_nothing_behind(database: Database) -> None:
    database.save(record("a"))
    with pytest.raises(sqlite3.IntegrityError):
        database.save(record("a"))
    pages = database.connection.execute("PRAGMA page_count").fetchone()[0]
    database.connection.execute(f"PRAGMA max_page_count = {pages}")  # a full disk
    with pytest.raises(sqlite3.OperationalError, match="full"):
        database.save(record("b", text="x" * 100_000))
    assert kept(database) == {"a"}
    database.connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    database.save(record("b", text="x" * 100_000))
    assert kept(database) == {"a", "b"}


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()


def newer_database(path: Path) -> None:
    open_database(path, BOUNDS).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def damaged_database(path: Path) -> None:
    database = open_database(path, BOUNDS)
    for n in range(50):
        database.save(record(str(n), text="x" * 500))
    database.close()
    data = bytearray(path.read_bytes())
    data[4096:20_000] = b"\xee" * (20_000 - 4096)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"no database at all" * 100),
        lambda path: path.mkdir(),
        lambda path: path.parent.rmdir() or path.parent.write_text("a file"),
        other_database,
        newer_database,
        damaged_database,
    ],
)
def test_a_file_that_cannot_be_used_is_told_at_once(spoil: Any, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "responses.db"
    path.parent.mkdir()
    spoil(path)
    with pytest.raises(SetupError) as caught:
        open_database(path, BOUNDS)
    assert str(path) in caught.value.message
    assert "--responses-store" in caught.value.hint
