"""What a GGUF file says about itself, read from its header without loading the model.

The layout (little-endian): magic `GGUF`, version u32, tensor count u64, metadata count u64, the
metadata pairs, then per tensor its name, dimensions, type and offset, then the tensors' bytes.

A header is untrusted: every length is checked against the file before it is used, nothing is
allocated by a length that the file states, and the header may not exceed MAX_HEADER_BYTES.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from server.errors import SetupError

MAX_HEADER_BYTES = 64 << 20  # 262k tokens with scores, types and merges are about 16 MB
MAX_CONTEXT_BY_DEFAULT = 8192
OVERHEAD_BYTES = 300_000_000  # compute buffers, the vocabulary, the process itself

Value = int | float | bool | str | tuple[int | float | bool, ...]

_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i",
    6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_MAX_PAIRS = 4096  # real files have about 50
_KEPT_ARRAY = 1024  # per-layer numbers are kept, vocabularies are not
_KEPT_STRING = 4 << 20  # chat templates are kilobytes

# Tensor type -> elements per block, bytes per block (ggml's type traits). A type that is missing
# here is newer than this table; its size is then not checked.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36),
    41: (128, 18), 42: (64, 18),
}  # fmt: skip

_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 22: "IQ3_XS", 23: "IQ3_XXS",
    24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS",
    31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4", 39: "NVFP4",
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """Where a tensor is: `offset` in the data section; its type is written in the header at `at`,
    and its offset after that.
    """

    name: str
    elements: int
    kind: int
    offset: int
    at: int

    @property
    def bytes(self) -> int:
        """0 where the type is unknown."""
        return bytes_of(self.kind, self.elements)


@dataclass(frozen=True)
class Layout:
    """The tensors of a file, whose data section begins at `data_at`."""

    tensors: list[Tensor]
    data_at: int
    alignment: int


def bytes_of(kind: int, elements: int) -> int:
    """How many bytes elements of a type take; 0 if the type is unknown."""
    block, block_bytes = _BLOCKS.get(kind, (1, 0))
    return elements // block * block_bytes


@dataclass(frozen=True)
class GGUFFacts:
    """Facts of one file. None where the file does not say."""

    path: Path
    file_bytes: int
    version: int
    architecture: str
    name: str | None
    quantisation: str | None
    parameter_count: int
    context_length: int | None  # tokens it was trained on
    block_count: int | None
    embedding_length: int | None
    kv_elements_per_token: int  # numbers that the KV cache holds for one token, in all layers
    chat_template: str | None
    layout: Layout

    @property
    def default_context_length(self) -> int:
        return min(self.context_length or MAX_CONTEXT_BY_DEFAULT, MAX_CONTEXT_BY_DEFAULT)

    def memory_bytes(
        self, context_length: int = 0, bytes_per_element: float = 2.0, beside: int = 0
    ) -> int:
        """Memory to serve it: the file, the KV cache and OVERHEAD_BYTES.

        `context_length` 0 means the default; `beside` are tokens whose cells are kept elsewhere. An
        upper bound: layers with a sliding window or without attention need less than is counted
        here.
        """
        tokens = (context_length or self.default_context_length) + beside
        cache = int(tokens * self.kv_elements_per_token * bytes_per_element)
        return self.file_bytes + cache + OVERHEAD_BYTES


def estimate_memory(
    path: Path, context_length: int = 0, bytes_per_element: float = 2.0, beside: int = 0
) -> int:
    """`GGUFFacts.memory_bytes` of the file at `path`; raises SetupError like `read_facts`."""
    return read_facts(path).memory_bytes(context_length, bytes_per_element, beside)


def read_facts(path: Path) -> GGUFFacts:
    """Read the header. Raises SetupError if the file is missing, not GGUF, damaged or cut."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < 24:
                _refuse(path, "not a GGUF file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Header(path, data, size).read()
    except OSError as exc:
        raise SetupError(f"cannot read the model file {path}: {exc.strerror}") from None


def _refuse(path: Path, what: str) -> NoReturn:
    raise SetupError(
        f"{path} is {what}",
        hint="fetch it again with `callwright models pull NAME`, or give another file",
    )


class _Header:
    """A cursor over the header; every step checks that it stays inside file and limit."""

    def __init__(self, path: Path, data: mmap.mmap, size: int) -> None:
        self.path = path
        self.data = data
        self.size = size
        self.limit = min(size, MAX_HEADER_BYTES)
        self.at = 0

    def read(self) -> GGUFFacts:
        if self.data[:4] != b"GGUF":
            _refuse(self.path, "not a GGUF file")
        self.at = 4
        version = self.integer("<I")
        if version not in (2, 3):
            _refuse(self.path, f"a GGUF file of version {version}, which is not supported")
        tensor_count, pair_count = self.integer("<Q"), self.integer("<Q")
        if pair_count > _MAX_PAIRS:
            self.damaged()
        metadata: dict[str, Value] = {}
        for _ in range(pair_count):
            key, kind = self.string(), self.integer("<I")
            value = self.value(kind)
            if value is not None:
                metadata[key] = value
        tensors = [self.tensor() for _ in range(tensor_count)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            self.damaged()
        data_at = -(-self.at // alignment) * alignment
        missing = data_at - self.size + max((one.offset + one.bytes for one in tensors), default=0)
        if tensors and missing > 0:
            _refuse(self.path, f"incomplete: at least {missing} bytes are missing at its end")
        return _facts(self.path, self.size, version, Layout(tensors, data_at, alignment), metadata)

    def tensor(self) -> Tensor:
        name = self.string()
        dimensions = self.integer("<I")
        if dimensions > 4:
            self.damaged()
        elements = 1
        for _ in range(dimensions):
            elements *= self.integer("<Q")
        at = self.at
        return Tensor(name, elements, self.integer("<I"), self.integer("<Q"), at)

    def value(self, kind: int) -> Value | None:
        """The value at the cursor; None for those that are only stepped over."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array()
        if kind not in _SCALARS:
            self.damaged()
        return self.scalar(_SCALARS[kind])

    def array(self) -> Value | None:
        kind, count = self.integer("<I"), self.integer("<Q")
        if kind == _STRING:
            for _ in range(count):
                self.skip(self.integer("<Q"))
            return None
        if kind not in _SCALARS:  # arrays in arrays are legal and used by nobody
            self.damaged()
        form = _SCALARS[kind]
        width = struct.calcsize(form)
        if count > _KEPT_ARRAY:
            self.skip(count * width)
            return None
        return tuple(self.scalar(form) for _ in range(count))

    def string(self) -> str:
        length = self.integer("<Q")
        start = self.at
        self.skip(length)
        return self.data[start : start + min(length, _KEPT_STRING)].decode("utf-8", "replace")

    def integer(self, form: str) -> int:
        return int(self.scalar(form))

    def scalar(self, form: str) -> int | float | bool:
        start = self.at
        self.skip(struct.calcsize(form))
        number: int | float | bool = struct.unpack_from(form, self.data, start)[0]
        return number

    def skip(self, length: int) -> None:
        self.at += length
        if self.at > self.limit:
            self.damaged()

    def damaged(self) -> NoReturn:
        what = "incomplete or damaged: its header does not end where it should"
        _refuse(self.path, what)


def _facts(
    path: Path, size: int, version: int, layout: Layout, metadata: Mapping[str, Value]
) -> GGUFFacts:
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        _refuse(path, "no model: its header names no architecture")
    file_type = metadata.get("general.file_type")
    return GGUFFacts(
        path=path,
        file_bytes=size,
        version=version,
        architecture=architecture,
        name=_text(metadata, "general.name"),
        quantisation=_FILE_TYPES.get(file_type) if isinstance(file_type, int) else None,
        parameter_count=sum(tensor.elements for tensor in layout.tensors),
        context_length=_count(metadata, f"{architecture}.context_length"),
        block_count=_count(metadata, f"{architecture}.block_count"),
        embedding_length=_count(metadata, f"{architecture}.embedding_length"),
        kv_elements_per_token=_kv_elements(architecture, metadata),
        chat_template=_text(metadata, "tokenizer.chat_template"),
        layout=layout,
    )


def _kv_elements(architecture: str, metadata: Mapping[str, Value]) -> int:
    layers = _count(metadata, f"{architecture}.block_count") or 0
    heads = _per_layer(metadata, f"{architecture}.attention.head_count")
    kv_heads = _per_layer(metadata, f"{architecture}.attention.head_count_kv") or heads
    width = _count(metadata, f"{architecture}.embedding_length") or 0
    head_width = width // max([1, *heads])
    key = _count(metadata, f"{architecture}.attention.key_length") or head_width
    value = _count(metadata, f"{architecture}.attention.value_length") or head_width
    all_heads = sum(kv_heads) if len(kv_heads) > 1 else layers * sum(kv_heads)
    return all_heads * (key + value)


def _text(metadata: Mapping[str, Value], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) and value else None


def _count(metadata: Mapping[str, Value], key: str) -> int | None:
    """A positive whole number, or None."""
    value = metadata.get(key)
    return value if isinstance(value, int) and value > 0 else None


def _per_layer(metadata: Mapping[str, Value], key: str) -> list[int]:
    """One number for all layers, or one for each (hybrid models have 0 where no attention is)."""
    value = metadata.get(key)
    numbers = value if isinstance(value, tuple) else (value,)
    return [one for one in numbers if isinstance(one, int) and one >= 0]
