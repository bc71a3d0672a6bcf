"""What every route does: ask for a key, know the model, read a body, answer in JSON."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from server.config import Settings
from server.errors import CallwrightError, NotFound, Unauthorized
from server.parts import Parts
from server.wire.replies import to_json


def check_key(request: Request, settings: Settings) -> None:
    """Raises Unauthorized unless the request has one of the keys, or none is needed."""
    if not settings.api_key:
        return
    raw = given_key(request)
    # Every key is compared, each in constant time: how long it takes says nothing, nor the length.
    matches = [
        hmac.compare_digest(sha256(raw).digest(), sha256(key.encode()).digest())
        for key in settings.api_key
    ]
    if not any(matches):
        raise Unauthorized("a valid API key is needed, as `Authorization: Bearer …`")


def given_key(request: Request) -> bytes:
    """The key that a request has, right or wrong. Raises Unauthorized for two of them."""
    for name in ("authorization", "x-api-key"):
        if len(request.headers.getlist(name)) > 1:  # which one counts, a proxy may see otherwise
            raise Unauthorized(f"the header {name} is there more than once")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        given = request.headers.get("x-api-key", "")
    return given.strip(" \t").encode("latin-1")  # the header's bytes, as starlette decoded them


def needs_key(settings: Settings) -> Callable[[Request], Awaitable[None]]:
    """`check_key` as a dependency, so that no route of a router can forget it."""

    async def dependency(request: Request) -> None:
        check_key(request, settings)

    return dependency


def check_model(name: str, parts: Parts) -> None:
    """Raises NotFound for a model that is not served here."""
    if name not in parts.model_names:
        raise NotFound(
            f"the model {name[:200]!r} is not served here, but {', '.join(parts.model_names)} is",
            param="model",
            code="model_not_found",
        )


def json_reply(reply: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(reply), status, headers, media_type="application/json")


def internal_error() -> CallwrightError:
    """What a client is told of a fault of ours: nothing that it could show."""
    return CallwrightError("the server failed on this request")
