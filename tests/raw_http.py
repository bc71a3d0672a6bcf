"""HTTP by hand, for what no client library would send."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

from tests.fakes import WAIT_S
from tests.serving import CHAT, Live


def head(length: int | str | None, *further: str, path: str = CHAT) -> bytes:
    """The lines of a POST up to its body."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1:8080", *further]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@contextlib.contextmanager
def connected(serving: Live) -> Iterator[socket.socket]:
    with socket.create_connection(serving.address, timeout=WAIT_S) as connection:
        yield connection


def read_answer(connection: socket.socket) -> tuple[int, Any]:
    """Status and JSON of one answer with a Content-Length."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += some(connection)
    lines, _, body = received.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in lines.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += some(connection)
    assert len(body) == int(fields[b"content-length"])
    return int(lines.split(b" ")[1]), json.loads(body)


def some(connection: socket.socket) -> bytes:
    """What has come so far, at least a byte."""
    data = connection.recv(65536)
    assert data, "the server closed the connection"
    return data


def request_bytes(body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    return head(len(content)) + content
