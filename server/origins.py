"""Whom a browser may speak for, where no key is asked for.

Any web page can make a browser send requests to this machine, and a page whose host name is made to
resolve to 127.0.0.1 (DNS rebinding) can read the answers too. A key stops both. Without one, the
`Host` of a request must be a name that no stranger can own, and its `Origin` one of this machine
or of the setting.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.config import LOOPBACK, Settings
from server.errors import Forbidden
from server.logs import log_refusal
from server.wire.replies import error_reply, to_json

# Names below these are never given to strangers (RFC 6761, RFC 6762, ICANN for `internal`).
_PRIVATE = (".localhost", ".internal")


class OriginGuard:
    """Refuses requests of foreign web pages before any route sees them."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = None
        if scope["type"] == "http":
            error = forbidden(Headers(scope=scope), self._settings)
        if error is None:
            await self._app(scope, receive, send)
            return
        log_refusal(error, error.status)
        content = to_json(error_reply(error))
        answer = Response(content, error.status, media_type="application/json")
        await answer(scope, receive, send)


def forbidden(headers: Mapping[str, str], settings: Settings) -> Forbidden | None:
    """Why a request is refused for where it comes from, None if it is not."""
    if settings.api_key:
        return None
    host = headers.get("host", "")
    if settings.host in LOOPBACK and not _is_known(_name_of(f"//{host}"), settings):
        return Forbidden(
            f"the host name {host[:200]!r} is not known here, see --allowed-host",
            code="host_not_allowed",
        )
    origin = headers.get("origin")
    if origin is not None and not _may_call(origin, host, settings):
        return Forbidden(
            f"web pages of {origin[:200]!r} may not call this server, see --cors-origin",
            code="origin_not_allowed",
        )
    return None


def _is_known(name: str, settings: Settings) -> bool:
    """Whether a host name cannot be a stranger's."""
    if "." not in name or name.endswith(_PRIVATE) or name in settings.allowed_host:
        return True
    return _is_address(name)


def _may_call(origin: str, host: str, settings: Settings) -> bool:
    if "*" in settings.cors_origin or origin in settings.cors_origin:
        return True
    scheme, _, rest = origin.partition("://")
    if origin != "null" and scheme.lower() not in ("http", "https"):
        return True  # no web page: an editor, a browser's extension
    name = _name_of(origin)
    return (
        (bool(rest) and rest.lower() == host.lower())
        or name in LOOPBACK
        or name.endswith(".localhost")
    )


def _name_of(url: str) -> str:
    """The host of a URL without its port, in small letters; what cannot be read has dots."""
    try:
        return (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return "not.readable"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
