"""Fakes for the models' tests: small GGUF files, wheels, a catalog entry, a file server."""

from __future__ import annotations

import hashlib
import http.server
import re
import struct
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from models.catalog import CatalogEntry, HubSource, PackagesSource, Source, UrlSource
from models.errors import SourceError
from models.sources import Tools
from models.web import Remote

PIECE = PackagesSource("packages", "pieces-part{n}", "data/part*.bin", "1.0", 12)
HUB = HubSource("hub", "someone/model-GGUF", "model.gguf")


class RecordingProgress:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.started: list[tuple[str, int, int]] = []
        self.updates: list[int] = []
        self.running = False

    def say(self, line: str) -> None:
        self.lines.append(line)

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.started.append((label, total, done))
        self.running = True

    def update(self, done: int, label: str | None = None) -> None:
        assert self.running
        self.updates.append(done)

    def stop(self) -> None:
        self.running = False


def entry_for(
    content: bytes | None, *sources: Source, file: str = "model.gguf", size: int = 0
) -> CatalogEntry:
    """An entry for these bytes; without them one that knows neither size nor hash."""
    known: dict[str, Any] = {"approximate_size": size}
    if content is not None:
        known = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return CatalogEntry(
        name="model",
        file=file,
        licence="none",
        context_length=128,
        description="a model",
        sources=sources,
        **known,
    )


def content_of(pieces: int, bytes_each: int = 1000) -> bytes:
    return b"".join(bytes([65 + n]) * bytes_each for n in range(pieces))


def make_wheel(path: Path, members: Sequence[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


@dataclass
class FakeIndex:
    """A DownloadWheel that cuts `content` into `count` pieces; `cut_at` stops it like a kill."""

    content: bytes
    count: int
    cut_at: int = 0
    asked: list[str] = field(default_factory=list)

    def __call__(self, requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
        self.asked.append(requirement)
        number = int(re.findall(r"part(\d+)", requirement)[0])
        if number == self.cut_at:
            raise KeyboardInterrupt
        step = -(-len(self.content) // self.count)
        piece = self.content[(number - 1) * step : number * step]
        on_bytes(len(piece) // 2)
        name = f"pieces_part{number}/data/part{number:02}.bin"
        return make_wheel(folder / f"{number}.whl", [("a/__init__.py", b""), (name, piece)])


def unreachable(_: object) -> Remote:
    raise SourceError("not reachable (no route)")


def tools_with(index: FakeIndex | None = None, remote: Remote | None = None) -> Tools:
    """Tools with these parts; the rest is out of reach."""
    found = remote
    return Tools(
        locate=unreachable if found is None else lambda _: found,
        download_wheel=index or FakeIndex(b"", 1),
    )


class _Handler(http.server.BaseHTTPRequestHandler):
    content: ClassVar[bytes]
    ranges: ClassVar[bool]
    cuts: ClassVar[list[int]]
    seen: ClassVar[list[str]]

    def do_HEAD(self) -> None:
        self._head(200, len(self.content))

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        self.seen.append(self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.ranges else 0
        if start >= len(self.content):
            self.send_error(416)
            return
        body = self.content[start:]
        self._head(206 if start else 200, len(body), start)
        self.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)

    def _head(self, status: int, length: int, start: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("ETag", f'"{hashlib.sha256(self.content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        if status == 206:
            total = len(self.content)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@dataclass(frozen=True)
class FileServer:
    url: str
    seen: list[str]  # the Range header of each GET

    def source(self) -> UrlSource:
        return UrlSource("url", self.url)


@contextmanager
def serve_file(
    content: bytes, *, ranges: bool = True, cuts: Sequence[int] = ()
) -> Iterator[FileServer]:
    """Serve `content` on loopback; the first answers stop after so many bytes."""
    seen: list[str] = []
    options = {"content": content, "ranges": ranges, "cuts": list(cuts), "seen": seen}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), options))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield FileServer(f"http://127.0.0.1:{server.server_port}/model.gguf", seen)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def gguf_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value: object) -> bytes:
    """Type and bytes: int as u32, float as f32, str, list of str or of int."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    assert isinstance(value, list)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_string, value))
    return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)


def gguf_bytes(
    metadata: dict[str, object], tensors: Sequence[tuple[str, list[int], int, int]] = ()
) -> bytes:
    """A GGUF file. Tensors: name, dimensions, type, bytes; their data is zero."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += gguf_string(key) + gguf_value(value)
    offset = 0
    for name, dimensions, kind, size in tensors:
        form = f"<I{len(dimensions)}QIQ"
        head += gguf_string(name)
        head += struct.pack(form, len(dimensions), *dimensions, kind, offset)
        offset += -(-size // 32) * 32
    return head + bytes(-len(head) % 32) + bytes(offset)


LLAMA: dict[str, object] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "general.file_type": 15,
    "llama.context_length": 2048,
    "llama.block_count": 3,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.scores": [1, 2, 3],
    "tokenizer.chat_template": "{{ messages }}",
}
