"""A copy of a model that CPUs compute faster, with the same weights to the last bit.

Q4_K_M files of small models, whose rows are no multiple of 256, hold most weights as Q5_0: blocks
of 32 weights, a half-precision scale d, and 5-bit numbers q that stand for d * (q - 16). The same
block is a Q8_0 block with the same d and q - 16 as bytes. It is larger, but no CPU kernel has to
put bits together first: prefill is about a fifth faster (`make bench` shows it).

Layouts of blocks after ggml's ggml-common.h: Q5_0 is d (2 bytes), the fifth bits of the 32 numbers
(4 bytes, little-endian), then 16 bytes with the low bits of number i in the low half of byte i and
those of number i + 16 in its high half. Q8_0 is d, then 32 signed bytes.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from models.gguf import Layout, Tensor, bytes_of, read_facts

log = logging.getLogger(__name__)

Q5_0, Q8_0 = 6, 8
BLOCK, Q5_0_BYTES, Q8_0_BYTES = 32, 22, 34
CHUNK_BLOCKS = 1 << 18  # at a time: 6 MB
WORTH = 0.25  # of a file's bytes in Q5_0: with less there is little to gain
KEPT_COPIES = 4
SPARE_BYTES = 1 << 30  # what a disk must have left afterwards


def widened(path: Path, folder: Path) -> Path:
    """The copy of a model in `folder`, made if need be; the model itself if none is worth it.

    Takes a few seconds once. A copy that cannot be made is a line in the log, not a fault.
    Raises SetupError if the file at `path` is no model.
    """
    layout = read_facts(path).layout
    wide = [tensor for tensor in layout.tensors if _is_wide(tensor, layout)]
    size = path.stat().st_size
    known = all(tensor.bytes for tensor in layout.tensors)
    if not known or sum(tensor.bytes for tensor in wide) < WORTH * size:
        return path
    copy = folder / _name(path)
    if copy.exists():
        os.utime(copy)  # used last
        return copy
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _drop_oldest(folder, KEPT_COPIES - 1)
        if shutil.disk_usage(folder).free < 2 * size + SPARE_BYTES:
            log.warning("no room in %s for a faster copy of the model", folder)
            return path
        log.info("making a faster copy of the model, once")
        _write(path, layout, {tensor.name for tensor in wide}, copy)
    except OSError as exc:
        log.warning("no faster copy of the model was made: %s", exc.strerror)
        return path
    return copy


def _is_wide(tensor: Tensor, layout: Layout) -> bool:
    """Whether a tensor becomes Q8_0. Of token embeddings only single rows are read, unless they
    are the output matrix as well.
    """
    if tensor.kind != Q5_0:
        return False
    has_output = any(one.name == "output.weight" for one in layout.tensors)
    return not (has_output and tensor.name == "token_embd.weight")


def _name(path: Path) -> str:
    """A name that is another one when the file is."""
    stat = path.stat()
    mark = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode())
    return f"{path.stem}-{mark.hexdigest()[:16]}.gguf"


def _drop_oldest(folder: Path, kept: int) -> None:
    copies = sorted(folder.glob("*.gguf"), key=lambda copy: copy.stat().st_mtime)
    for copy in copies[: max(0, len(copies) - kept)]:
        copy.unlink(missing_ok=True)


def _write(path: Path, layout: Layout, wide: set[str], copy: Path) -> None:
    """Under its name only when it is whole."""
    with (
        path.open("rb") as source,
        tempfile.NamedTemporaryFile(dir=copy.parent, suffix=".part", delete=False) as target,
    ):
        try:
            header = bytearray(source.read(layout.data_at))
            offset = 0
            for tensor in layout.tensors:
                kind = Q8_0 if tensor.name in wide else tensor.kind
                struct.pack_into("<IQ", header, tensor.at, kind, offset)
                offset += _aligned(bytes_of(kind, tensor.elements), layout.alignment)
            target.write(header)
            for tensor in layout.tensors:
                source.seek(layout.data_at + tensor.offset)
                chunks = _widened if tensor.name in wide else _copied
                written = sum(target.write(chunk) for chunk in chunks(source, tensor))
                target.write(bytes(_aligned(written, layout.alignment) - written))
            target.close()
            os.replace(target.name, copy)
        except BaseException:
            os.unlink(target.name)
            raise


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _copied(source: BinaryIO, tensor: Tensor) -> Iterator[bytes]:
    left = tensor.bytes
    while left:
        chunk = source.read(min(left, CHUNK_BLOCKS * Q8_0_BYTES))
        left -= len(chunk)
        yield chunk


def _widened(source: BinaryIO, tensor: Tensor) -> Iterator[bytes]:
    left = tensor.elements // BLOCK
    while left:
        count = min(left, CHUNK_BLOCKS)
        blocks = np.frombuffer(source.read(count * Q5_0_BYTES), np.uint8)
        left -= count
        yield widen(blocks.reshape(count, Q5_0_BYTES)).tobytes()


def widen(blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Q5_0 blocks, shape (n, 22), as Q8_0 blocks of the same values, shape (n, 34)."""
    wide = np.empty((len(blocks), Q8_0_BYTES), np.uint8)
    wide[:, :2] = blocks[:, :2]
    fifth = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    low = blocks[:, 6:]
    numbers = np.concatenate([low & 15, low >> 4], axis=1) | (fifth << 4)
    wide[:, 2:] = numbers - np.uint8(16)  # two's complement
    return wide
