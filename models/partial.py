"""The unfinished file of one model, beside its final place, so that a cut fetch can go on.

<file>.part/data         the bytes so far, always a true beginning of the file
<file>.part/ledger.json  which file they belong to, and where finished pieces end
<file>.part/lock         held while a process works on it
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from models.errors import SourceError
from models.progress import human_bytes
from server.errors import SetupError

SPARE_BYTES = 64 << 20  # left free on the disk


@dataclass
class _Ledger:
    """`ends` are offsets in `data` after each finished piece of the source `pieces_of`."""

    sha256: str = ""
    pieces_of: str = ""
    ends: list[int] = field(default_factory=list)


class PartialFile:
    """Not thread-safe. All methods but `locked`, `exists` and `size` need the lock to be held."""

    def __init__(self, final: Path) -> None:
        self.final = final
        self.folder = final.with_name(final.name + ".part")
        self.data = self.folder / "data"
        self._ledger_path = self.folder / "ledger.json"

    @contextlib.contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold the lock across processes; call `on_wait` once if another process has it."""
        waited = False
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "lock").open("a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if not waited:
                        on_wait()
                    waited = True
                    fcntl.flock(file, fcntl.LOCK_EX)
                # The one who held it may have removed the folder: then this lock guards nothing.
                if _is_same_file(file.fileno(), self.folder / "lock"):
                    yield
                    return

    @property
    def size(self) -> int:
        """Bytes so far."""
        with contextlib.suppress(FileNotFoundError):
            return self.data.stat().st_size
        return 0

    def belong_to(self, sha256: str) -> None:
        """Keep what is there if it is the beginning of this file, else drop it."""
        if self._read().sha256 != sha256:
            self.drop()
            self._write(_Ledger(sha256))

    def keep_pieces(self, pieces_of: str) -> int:
        """Cut back to the last finished piece of that source; returns how many are finished."""
        ledger = self._read()
        if ledger.pieces_of != pieces_of or (ledger.ends and ledger.ends[-1] > self.size):
            ledger = _Ledger(ledger.sha256, pieces_of)
            self._write(ledger)
        self.cut(ledger.ends[-1] if ledger.ends else 0)
        return len(ledger.ends)

    def finish_piece(self) -> None:
        """What is there now ends with a whole piece."""
        with self.data.open("rb") as file:
            os.fsync(file.fileno())  # the ledger must not promise bytes that a power cut loses
        ledger = self._read()
        ledger.ends.append(self.size)
        self._write(ledger)

    def append(self, chunks: Iterable[bytes], limit: int, on_bytes: Callable[[int], None]) -> None:
        """Write chunks as they come; calls `on_bytes` with the size so far.

        Raises SourceError before the size would exceed `limit`.
        """
        size = self.size
        with self.data.open("ab") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    raise SourceError("it has more bytes than the file")
                file.write(chunk)
                on_bytes(size)

    def cut(self, size: int) -> None:
        with self.data.open("ab") as file:
            file.truncate(size)

    def drop(self) -> None:
        """Forget all bytes; the lock stays."""
        self.data.unlink(missing_ok=True)
        self._ledger_path.unlink(missing_ok=True)

    def publish(self) -> None:
        """Give the checked file its final name, and remove everything else."""
        with self.data.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(self.data, self.final)
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def require_space(self, more_bytes: int) -> None:
        """Raises SetupError, with the numbers, unless that many more bytes fit on the disk."""
        free = shutil.disk_usage(self.folder).free
        if free < more_bytes + SPARE_BYTES:
            raise SetupError(
                f"not enough disk space in {self.final.parent}: {human_bytes(free)} are free, "
                f"{human_bytes(more_bytes)} are needed, and {human_bytes(SPARE_BYTES)} to spare",
                hint="free some, or choose another folder with --models-dir",
            )

    @contextlib.contextmanager
    def disk_errors(self) -> Iterator[None]:
        """Turn errors of the disk into SetupError; a full disk gets its bytes back."""
        try:
            yield
        except OSError as exc:
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                self.remove()
                raise SetupError(
                    f"the disk became full while writing to {self.final.parent}; "
                    "the unfinished file was removed",
                    hint="free some space, or choose another folder with --models-dir",
                ) from None
            raise SetupError(
                f"cannot write to {self.final.parent}: {exc.strerror or exc}",
                hint="choose another folder with --models-dir",
            ) from None

    def _read(self) -> _Ledger:
        """A ledger that cannot be read counts as none: then its bytes are not trusted."""
        try:
            raw = json.loads(self._ledger_path.read_text("utf-8"))
            return _Ledger(
                str(raw["sha256"]), str(raw["pieces_of"]), [int(end) for end in raw["ends"]]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return _Ledger()

    def _write(self, ledger: _Ledger) -> None:
        new = self._ledger_path.with_suffix(".new")
        new.write_text(json.dumps(asdict(ledger)), "utf-8")
        os.replace(new, self._ledger_path)


def _is_same_file(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
