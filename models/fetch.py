"""Fetch a catalogued model: present, or from the first source whose bytes have the right SHA-256.

A file gets its final name only in `_from_source`, after its hash was compared. Until then its
bytes are in a PartialFile, which a later call goes on with.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
from collections.abc import Iterator
from pathlib import Path

from models import sources
from models.catalog import CatalogEntry, Source
from models.copies import copies_folder, drop_copies
from models.errors import SourceError
from models.partial import PartialFile
from models.progress import Progress, human_bytes
from server.errors import SetupError

CHUNK_BYTES = 1 << 20


class Verdict(enum.Enum):
    """What `verify` found."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"  # no hash is known: neither from the catalog nor from the hub
    MISSING = "missing"


def fetch(
    entry: CatalogEntry,
    models_dir: Path,
    *,
    offline: bool,
    progress: Progress,
    tools: sources.Tools | None = None,
) -> Path:
    """The path of the model's file, fetched if need be.

    If it is present nothing is read, hashed or asked. Otherwise its sources are tried in order.
    Raises SetupError; a KeyboardInterrupt passes through. Both keep what was fetched so far,
    except where the disk became full.
    """
    final = entry.path(models_dir)
    if entry.is_present(models_dir):
        return final
    if offline:
        raise SetupError(
            f"{entry.name} is not in {models_dir}, or not whole, and offline mode is on",
            hint=f"run `callwright models pull {entry.name}` with a network first",
        )
    partial = PartialFile(final)
    wait = f"another process is fetching {entry.name}; waiting for it"
    with partial.disk_errors(), partial.locked(lambda: progress.say(wait)), _tidy(partial):
        if not entry.is_present(models_dir):
            try:
                _from_any_source(entry, partial, progress, tools or sources.Tools())
            except KeyboardInterrupt:
                progress.stop()
                progress.say("stopped; what was fetched is kept, and the next try goes on there")
                raise
    return final


@contextlib.contextmanager
def _tidy(partial: PartialFile) -> Iterator[None]:
    try:
        yield
    finally:
        if not partial.size:
            partial.remove()


def _from_any_source(
    entry: CatalogEntry, partial: PartialFile, progress: Progress, tools: sources.Tools
) -> None:
    partial.require_space(entry.expected_size - partial.size)
    reasons: list[str] = []
    for source in entry.sources:
        if reasons:
            progress.say(f"{reasons[-1]}; going on to {sources.describe(source)}")
        try:
            return _from_source(source, entry, partial, progress, tools)
        except SourceError as exc:
            reasons.append(f"{sources.describe(source)}: {exc}")
        finally:
            progress.stop()
    raise SetupError(
        f"could not fetch {entry.name} from {'; from '.join(reasons)}",
        hint="try again later (what was fetched is kept), or give the path of a GGUF file instead",
    )


def _from_source(
    source: Source,
    entry: CatalogEntry,
    partial: PartialFile,
    progress: Progress,
    tools: sources.Tools,
) -> None:
    transfer = sources.prepare(source, entry, tools)
    partial.belong_to(transfer.sha256)
    partial.require_space(transfer.size - partial.size + transfer.scratch_bytes)
    kept_bytes = partial.size
    kept = f", {human_bytes(kept_bytes)} of it is here already" if kept_bytes else ""
    what = f"{entry.name} ({human_bytes(transfer.size)}{kept})"
    progress.say(f"fetching {what} from {sources.describe(source)}")
    progress.start(entry.file, transfer.size, partial.size)
    transfer.run(partial, progress)
    progress.stop()
    found = hash_file(partial.data, f"checking {entry.file}", progress)
    if found != transfer.sha256:
        partial.drop()
        if kept_bytes:  # they may have been the wrong ones, and from another source
            progress.say(f"what was here of {entry.name} is wrong; fetching it from the beginning")
            return _from_source(source, entry, partial, progress, tools)
        raise SourceError(
            f"its bytes are wrong (SHA-256 {found[:12]}…, not {transfer.sha256[:12]}…); dropped"
        )
    if entry.sha256 is None:
        hash_path(entry, partial.final.parent).write_text(f"{found}  {entry.file}\n", "utf-8")
    partial.publish()


def hash_file(path: Path, label: str, progress: Progress) -> str:
    """SHA-256 in hex, with progress."""
    digest = hashlib.sha256()
    done = 0
    progress.start(label, path.stat().st_size)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            progress.update(done)
    progress.stop()
    return digest.hexdigest()


def hash_path(entry: CatalogEntry, models_dir: Path) -> Path:
    """Where the hash is kept that the hub stated when the file was fetched."""
    return models_dir / f"{entry.file}.sha256"


def known_hash(entry: CatalogEntry, models_dir: Path) -> str | None:
    """The SHA-256 that the file should have: the catalog's, or the hub's when it was fetched."""
    if entry.sha256 is None:
        with contextlib.suppress(OSError, IndexError):
            return hash_path(entry, models_dir).read_text("utf-8").split()[0]
    return entry.sha256


def verify(entry: CatalogEntry, models_dir: Path, progress: Progress) -> Verdict:
    """Hash the file and compare. Raises SetupError if it cannot be read."""
    path = entry.path(models_dir)
    if not path.is_file():
        return Verdict.MISSING
    expected = known_hash(entry, models_dir)
    if expected is None:
        return Verdict.UNKNOWN
    try:
        found = hash_file(path, f"checking {entry.file}", progress)
    except OSError as exc:
        raise SetupError(f"cannot read {path}: {exc.strerror}") from None
    return Verdict.RIGHT if found == expected else Verdict.WRONG


def remove(entry: CatalogEntry, models_dir: Path) -> int:
    """Delete the file and what belongs to it; returns the bytes freed. Raises SetupError."""
    path, partial = entry.path(models_dir), PartialFile(entry.path(models_dir))
    freed = partial.size + (path.stat().st_size if path.is_file() else 0)
    try:
        drop_copies(path, copies_folder(models_dir))
        path.unlink(missing_ok=True)
        hash_path(entry, models_dir).unlink(missing_ok=True)
    except OSError as exc:
        raise SetupError(f"cannot remove {path}: {exc.strerror}") from None
    partial.remove()
    return freed


def size_line(entry: CatalogEntry) -> str:
    """`491 MB`, or `≈ 2.5 GB` where the catalog does not know it exactly."""
    about = "" if entry.size is not None else "≈ "
    return about + human_bytes(entry.expected_size)
