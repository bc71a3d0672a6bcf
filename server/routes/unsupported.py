"""Routes of OpenAI's that are not here, and why: a client is told what it asked of which server."""

from __future__ import annotations

from server.errors import NotFound

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


def no_such_route(path: str) -> NotFound:
    name = path.removeprefix("/v1").removeprefix("/").split("/")[0]
    if name in UNSUPPORTED:
        return NotFound(UNSUPPORTED[name], code="unsupported_endpoint")
    return NotFound("there is no such route")
