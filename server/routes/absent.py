"""Routes that are not here: a client is told why, or what there is."""

from __future__ import annotations

from collections.abc import Iterable

from server.errors import InvalidRequest, NotFound
from server.wire.base import clipped

UNSUPPORTED = {
    "embeddings": "embeddings are not supported: the model served here writes text and calls",
    "audio": "audio is not supported, the model served here reads and writes text only",
    "images": "images are not supported, the model served here reads and writes text only",
    "videos": "videos are not supported, the model served here reads and writes text only",
    "realtime": "realtime sessions are not supported: stream /v1/chat/completions",
    "moderations": "moderation is not supported: there is no model for it",
    "rerank": "ranking is not supported: the model served here writes text and calls",
    "assistants": "assistants are not supported: use /v1/chat/completions",
    "threads": "threads are not supported: use /v1/chat/completions",
    "batches": "batches are not supported: requests at the same time share the model",
    "files": "files are not kept here",
    "uploads": "files are not kept here",
    "vector_stores": "files are not kept here",
    "fine_tuning": "training is not supported",
}


class Routes:
    """The routes that there are, as methods and paths, and what to say of those that are not."""

    def __init__(self, routes: Iterable[tuple[str, str]]) -> None:
        self._routes = list(routes)

    def none(self, path: str) -> NotFound:
        """There is nothing at a path."""
        name = path.removeprefix("/v1").removeprefix("/").split("/")[0]
        if name in UNSUPPORTED:
            return NotFound(UNSUPPORTED[name], code="unsupported_endpoint")
        paths = {there for _, there in self._routes}
        for meant in (f"/v1{path}", path.removeprefix("/v1")):
            if meant in paths:
                return NotFound(f"there is no {path}, but {meant}: look at the client's base URL")
        there = ", ".join(f"{method} {one}" for method, one in self._routes)
        return NotFound(f"there is no route {clipped(path, 200)!r}; there are {there}")

    def none_with(self, method: str, allowed: str) -> InvalidRequest:
        """There is something at a path, but for other methods."""
        return InvalidRequest(f"{clipped(method, 40)} is not possible here, only {allowed} is")
