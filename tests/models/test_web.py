from __future__ import annotations

import dataclasses
import hashlib
import socket
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from models.errors import SourceError
from models.partial import PartialFile
from models.web import TRIES_WITHOUT_PROGRESS, Remote, download
from tests.models.helpers import RecordingProgress, serve_file

CONTENT = bytes(range(256)) * 40
HASH = hashlib.sha256(CONTENT).hexdigest()


def client() -> httpx.Client:
    return httpx.Client(timeout=5, follow_redirects=True, trust_env=False)


def get(tmp_path: Path, remote: Remote, begun: bytes = b"") -> tuple[PartialFile, list[float]]:
    partial = PartialFile(tmp_path / "m.gguf")
    partial.folder.mkdir()
    partial.append([begun], len(begun), lambda _: None)
    progress, pauses = RecordingProgress(), list[float]()
    progress.start("m", remote.size)
    download(remote, client, partial, progress, pauses.append)
    return partial, pauses


def test_a_file_comes_whole(tmp_path: Path) -> None:
    with serve_file(CONTENT) as server:
        partial, pauses = get(tmp_path, Remote(server.url, len(CONTENT), HASH))
    assert partial.data.read_bytes() == CONTENT
    assert (server.seen, pauses) == ([""], [])


def test_what_is_there_is_not_asked_for_again(tmp_path: Path) -> None:
    with serve_file(CONTENT) as server:
        remote = Remote(server.url, len(CONTENT), HASH)
        partial, _ = get(tmp_path, remote, begun=CONTENT[:5000])
    assert partial.data.read_bytes() == CONTENT
    assert server.seen == ["bytes=5000-"]


def test_a_server_without_ranges_sends_it_from_the_beginning(tmp_path: Path) -> None:
    with serve_file(CONTENT, ranges=False) as server:
        remote = Remote(server.url, len(CONTENT), HASH)
        partial, _ = get(tmp_path, remote, begun=CONTENT[:5000])
    assert partial.data.read_bytes() == CONTENT


@pytest.mark.parametrize("cuts", [[100], [100, 0, 3000], [0, 0, 1, 0, 0, 1]])
def test_a_broken_connection_is_taken_up_where_it_broke(
    tmp_path: Path, cuts: Sequence[int]
) -> None:
    with serve_file(CONTENT, cuts=cuts) as server:
        partial, pauses = get(tmp_path, Remote(server.url, len(CONTENT), HASH))
    assert partial.data.read_bytes() == CONTENT
    assert len(pauses) == len(cuts)
    assert len(server.seen) == len(cuts) + 1


def test_without_a_new_byte_it_gives_up_and_keeps_the_rest(tmp_path: Path) -> None:
    with serve_file(CONTENT, cuts=[100] + [0] * TRIES_WITHOUT_PROGRESS) as server:
        with pytest.raises(SourceError, match="the connection failed"):
            get(tmp_path, Remote(server.url, len(CONTENT), HASH))
    assert PartialFile(tmp_path / "m.gguf").data.read_bytes() == CONTENT[:100]


def test_a_file_that_is_too_short_or_too_long_is_refused(tmp_path: Path) -> None:
    with serve_file(CONTENT) as server:
        remote = Remote(server.url, len(CONTENT) - 1, HASH)
        (tmp_path / "a").mkdir()
        with pytest.raises(SourceError, match="more bytes"):
            get(tmp_path / "a", remote)
        longer = dataclasses.replace(remote, size=len(CONTENT) + 1)
        with pytest.raises(SourceError, match="it answered 416"):
            get(tmp_path, longer, begun=CONTENT)


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/x", "ftp://127.0.0.1/x", "nonsense"])
def test_an_address_that_does_not_answer_is_a_source_error(tmp_path: Path, url: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        remote = Remote(url.format(port=closed.getsockname()[1]), 10, HASH)
        with pytest.raises(SourceError, match="the connection failed"):
            get(tmp_path, remote)


@pytest.mark.parametrize("status", [401, 404, 416, 500])
def test_an_error_answer_is_named(tmp_path: Path, status: int) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(status))
    partial = PartialFile(tmp_path / "m.gguf")
    with pytest.raises(SourceError, match=f"it answered {status}"):
        download(
            Remote("http://h/x", 3, HASH),
            lambda: httpx.Client(transport=transport),
            partial,
            RecordingProgress(),
        )


def test_another_range_than_asked_for_is_refused(tmp_path: Path) -> None:
    answer = httpx.Response(206, headers={"Content-Range": "bytes 0-2/3"}, content=b"abc")
    partial = PartialFile(tmp_path / "m.gguf")
    partial.folder.mkdir()
    partial.append([b"a"], 1, lambda _: None)
    with pytest.raises(SourceError, match="another range"):
        download(
            Remote("http://h/x", 3, HASH),
            lambda: httpx.Client(transport=httpx.MockTransport(lambda _: answer)),
            partial,
            RecordingProgress(),
        )
    assert partial.data.read_bytes() == b"a"


def test_the_key_for_the_first_host_does_not_follow_a_redirect(tmp_path: Path) -> None:
    seen: dict[str, str | None] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        seen[request.url.host] = request.headers.get("Authorization")
        if request.url.host == "hub":
            return httpx.Response(302, headers={"Location": "http://storage/x"})
        return httpx.Response(200, content=b"abc")

    partial, progress = PartialFile(tmp_path / "m.gguf"), RecordingProgress()
    partial.folder.mkdir()
    progress.start("m", 3)
    transport = httpx.MockTransport(answer)
    download(
        Remote("http://hub/x", 3, HASH, {"Authorization": "Bearer k"}),
        lambda: httpx.Client(transport=transport, follow_redirects=True),
        partial,
        progress,
    )
    assert seen == {"hub": "Bearer k", "storage": None}
    assert partial.data.read_bytes() == b"abc"
