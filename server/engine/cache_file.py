"""The prefix cache in a file, so that a server that starts again is warm.

Layout: MAGIC, the SHA-256 of all that follows (32 bytes), the length of the header (8 bytes,
little-endian), the header (JSON: whose cells these are, and what they hold), and the cells as
llama.cpp writes them. llama.cpp does not survive reading damaged cells, hence the hash over all.
Prompts can be read from the file: only its owner may.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from server.engine.prefix_cache import Books
from server.errors import SetupError

log = logging.getLogger(__name__)

MAGIC = b"callwright prefix cache 1\n"
DIGEST_BYTES = 32
LENGTH_BYTES = 8

State = NDArray[np.uint8]  # shape (bytes,)


@dataclass(frozen=True)
class Warmth:
    """What is kept: which cells hold what, and the cells."""

    books: Books
    state: State


class CacheFile:
    """Where the cache is kept. `identity` names model and settings: others' cells are no use.

    Raises SetupError if there is a file at `path` that is something else, or no folder for it.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self._path = path
        self._identity = identity
        try:
            with path.open("rb") as file:
                if not MAGIC.startswith(file.read(len(MAGIC))):  # an empty one is none yet
                    raise SetupError(
                        f"{path} is not a prefix cache",
                        hint="Give --cache-file another path, or remove that file.",
                    )
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise SetupError(f"there is no folder {path.parent} for --cache-file") from None
        except OSError as exc:
            raise SetupError(f"cannot read the cache file {path}: {exc.strerror}") from None

    def load(self) -> Warmth | None:
        """What was kept; None, and a line in the log, if it is of no use here."""
        try:
            data = np.fromfile(self._path, np.uint8).data
        except FileNotFoundError:
            return None
        except OSError as exc:
            log.warning("the cache file %s was not read: %s", self._path, exc.strerror)
            return None
        begin = len(MAGIC) + DIGEST_BYTES
        if hashlib.sha256(data[begin:]).digest() != data[len(MAGIC) : begin]:
            log.warning("the cache file %s is damaged: starting cold", self._path)
            return None
        end = begin + LENGTH_BYTES + int.from_bytes(data[begin : begin + LENGTH_BYTES], "little")
        header = json.loads(bytes(data[begin + LENGTH_BYTES : end]))
        if header["identity"] != self._identity:
            log.warning(
                "the cache file %s is of another model or other settings: starting cold", self._path
            )
            return None
        return Warmth(Books(**header["books"]), np.frombuffer(data[end:], np.uint8))

    def save(self, warmth: Warmth) -> None:
        """Keep it, in place of what was there; a file that cannot be written is a warning."""
        header = json.dumps({"identity": self._identity, "books": vars(warmth.books)}).encode()
        parts = (len(header).to_bytes(LENGTH_BYTES, "little"), header, warmth.state.data)
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        try:
            # Made with mode 0600, and under its name only when it is whole.
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                try:
                    for part in (MAGIC, digest.digest(), *parts):
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
                    file.close()
                    os.replace(file.name, self._path)
                except BaseException:
                    os.unlink(file.name)
                    raise
        except OSError as exc:
            log.warning("the cache file %s was not written: %s", self._path, exc.strerror)
