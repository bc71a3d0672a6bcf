from __future__ import annotations

import errno
import multiprocessing
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import SourceError
from models.partial import PartialFile
from server.errors import SetupError


def ignore(_: int) -> None:
    """No progress to show."""


def begun(tmp_path: Path, data: bytes = b"") -> PartialFile:
    partial = PartialFile(tmp_path / "m.gguf")
    partial.folder.mkdir(parents=True, exist_ok=True)
    partial.belong_to("a")
    partial.append([data], 1000, ignore)
    return partial


def test_bytes_are_kept_for_the_same_file_only(tmp_path: Path) -> None:
    begun(tmp_path, b"123")
    again = PartialFile(tmp_path / "m.gguf")
    again.belong_to("a")
    assert again.size == 3
    again.belong_to("b")
    assert again.size == 0


def test_a_broken_ledger_counts_as_none(tmp_path: Path) -> None:
    partial = begun(tmp_path, b"123")
    for text in ("", "{", "[]", '{"sha256": "a"}', '{"sha256":"a","pieces_of":"","ends":["x"]}'):
        partial.append([b"1"], 1000, ignore)
        (partial.folder / "ledger.json").write_text(text)
        partial.belong_to("a")
        assert partial.size == 0


def test_an_unfinished_piece_is_cut_off(tmp_path: Path) -> None:
    partial = begun(tmp_path)
    assert partial.keep_pieces("p{n}") == 0
    partial.append([b"11"], 1000, ignore)
    partial.finish_piece()
    partial.append([b"22", b"2"], 1000, ignore)
    partial.finish_piece()
    partial.append([b"3"], 1000, ignore)
    again = PartialFile(tmp_path / "m.gguf")
    again.belong_to("a")
    assert again.keep_pieces("p{n}") == 2
    assert again.data.read_bytes() == b"11222"


def test_pieces_of_another_source_do_not_count(tmp_path: Path) -> None:
    partial = begun(tmp_path)
    partial.keep_pieces("p{n}")
    partial.append([b"11"], 1000, ignore)
    partial.finish_piece()
    assert partial.keep_pieces("q{n}") == 0
    assert partial.size == 0


def test_pieces_that_the_disk_lost_do_not_count(tmp_path: Path) -> None:
    partial = begun(tmp_path)
    partial.keep_pieces("p{n}")
    partial.append([b"1122"], 1000, ignore)
    partial.finish_piece()
    partial.cut(3)
    assert partial.keep_pieces("p{n}") == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(0, 40))
def test_never_longer_than_the_limit(tmp_path: Path, chunks: list[bytes], limit: int) -> None:
    partial = begun(tmp_path)
    partial.cut(0)
    try:
        partial.append(chunks, limit, ignore)
    except SourceError:
        assert len(b"".join(chunks)) > limit
    assert partial.size <= limit
    assert b"".join(chunks).startswith(partial.data.read_bytes())


def test_publishing_leaves_nothing_else_behind(tmp_path: Path) -> None:
    begun(tmp_path, b"123").publish()
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]
    assert (tmp_path / "m.gguf").read_bytes() == b"123"


def test_a_disk_that_is_too_small_is_named_with_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=200_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    partial = begun(tmp_path)
    partial.require_space(100_000_000)
    with pytest.raises(SetupError, match=r"200 MB are free, 491 MB are needed"):
        partial.require_space(491_000_000)


def test_a_disk_that_becomes_full_gets_its_bytes_back(tmp_path: Path) -> None:
    partial = begun(tmp_path, b"123")
    with pytest.raises(SetupError, match="the disk became full"), partial.disk_errors():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    partial = PartialFile(tmp_path / "models" / "m.gguf")
    with (
        pytest.raises(SetupError, match=r"cannot write to .*models: Not a directory"),
        partial.disk_errors(),
        partial.locked(lambda: None),
    ):
        pass


def _hold(folder: Path, ready: Callable[[], None], seconds: float) -> None:
    partial = PartialFile(folder / "m.gguf")
    with partial.locked(lambda: None):
        ready()
        time.sleep(seconds)
        partial.remove()  # as publishing does: the one who waits then holds a lock on nothing


def test_a_second_process_waits_and_then_has_a_lock_that_counts(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready.set, 0.5))
    process.start()
    try:
        assert ready.wait(30)
        waits: list[float] = []
        partial = PartialFile(tmp_path / "m.gguf")
        with partial.locked(lambda: waits.append(time.monotonic())):
            assert len(waits) == 1
            assert time.monotonic() - waits[0] > 0.05
            assert (partial.folder / "lock").exists()
    finally:
        process.join()
