"""A file from an http(s) address, resumed by ranges."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from models.errors import SourceError
from models.partial import PartialFile
from models.progress import Progress

TRIES_WITHOUT_PROGRESS = 3


@dataclass(frozen=True)
class Remote:
    """A file on a server. `headers` are for its own host; redirects elsewhere lose the key."""

    url: str
    size: int
    sha256: str
    headers: Mapping[str, str] = field(default_factory=dict)


def download(
    remote: Remote,
    client: Callable[[], httpx.Client],
    partial: PartialFile,
    progress: Progress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Append to `partial` until it has `remote.size` bytes.

    A broken connection is taken up again where it broke, TRIES_WITHOUT_PROGRESS times without a
    new byte at most; then SourceError.
    """
    failures = 0
    with client() as session:
        while (before := partial.size) < remote.size:
            reason = _rest(remote, session, partial, progress)
            failures = 0 if partial.size > before else failures + 1
            if failures == TRIES_WITHOUT_PROGRESS:
                raise SourceError(reason)
            if reason:
                pause(failures)


def _rest(remote: Remote, session: httpx.Client, partial: PartialFile, progress: Progress) -> str:
    """One request for what is missing; returns why it ended early, or an empty text."""
    start = partial.size
    headers = {**remote.headers, "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        with session.stream("GET", remote.url, headers=headers) as response:
            _accept(response, start, partial)
            # As they come: a chunk that is still being filled would be lost with the connection.
            partial.append(response.iter_bytes(), remote.size, progress.update)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        return f"the connection failed ({exc or type(exc).__name__})"
    return "it ended too early" if partial.size < remote.size else ""


def _accept(response: httpx.Response, start: int, partial: PartialFile) -> None:
    if response.status_code == 200:
        partial.cut(0)  # no ranges here: from the beginning
    elif response.status_code == 206:
        if not re.match(rf"bytes {start}-", response.headers.get("Content-Range", "")):
            raise SourceError("it sent another range than asked for")
    else:
        raise SourceError(f"it answered {response.status_code}")
