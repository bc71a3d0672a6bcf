"""The HTTP application: its routes, its errors, and the life of the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from server.errors import Busy, CallwrightError, InvalidRequest
from server.openapi import EXTRA, document
from server.origins import OriginGuard
from server.parts import Parts
from server.routes import chat, completions, responses, service, tokens
from server.routes.common import internal_error, json_reply, needs_key
from server.routes.unsupported import no_such_route
from server.wire.replies import error_reply

log = logging.getLogger(__name__)

KEYED = (
    service.router,
    chat.router,
    completions.router,
    responses.router,
    tokens.router,
)


def create_app(parts: Parts) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.engine.start()
        yield
        await asyncio.to_thread(parts.engine.stop, parts.settings.shutdown_grace_s)
        parts.compiler.close()
        await asyncio.to_thread(parts.responses.close)

    # FastAPI's own page of /docs would fetch its scripts from elsewhere.
    app = FastAPIOffline(
        "/docs", None, static_url="/docs/static", title="Callwright", lifespan=lifespan
    )
    _add_errors(app)
    unkeyed = service.open_router(parts)
    keyed = [router(parts) for router in KEYED]
    app.include_router(unkeyed)
    for router in keyed:
        app.include_router(router, dependencies=[Depends(needs_key(parts.settings))])
    app.openapi = partial(_openapi, parts, [unkeyed, *keyed])  # type: ignore[method-assign]
    app.add_middleware(OriginGuard, settings=parts.settings)
    if parts.settings.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(parts.settings.cors_origin),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
        )
    return app


def _openapi(parts: Parts, routers: Iterable[APIRouter]) -> dict[str, Any]:
    routes = [
        (method, route.path_format, extra[EXTRA])
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and (extra := route.openapi_extra) and EXTRA in extra
        for method in sorted(route.methods or ())
    ]
    return document(
        routes,
        model_names=parts.model_names,
        needs_key=bool(parts.settings.api_key),
    )


def _add_errors(app: FastAPI) -> None:
    """The one place where errors become HTTP."""

    @app.exception_handler(CallwrightError)
    async def known(_: Request, exc: CallwrightError) -> Response:
        # Not the message: it may quote what the client wrote.
        log.info("refused status=%d code=%s param=%s", exc.status, exc.code, exc.param)
        headers = {"retry-after": str(exc.retry_after_s)} if isinstance(exc, Busy) else None
        return json_reply(error_reply(exc), exc.status, headers)

    @app.exception_handler(HTTPException)
    async def route(request: Request, exc: HTTPException) -> Response:
        error: CallwrightError = InvalidRequest(str(exc.detail))
        if exc.status_code == 404:
            error = no_such_route(request.url.path)
        return json_reply(error_reply(error), exc.status_code, dict(exc.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, exc: RequestValidationError) -> Response:
        return json_reply(error_reply(InvalidRequest("the request is malformed")), 400)

    @app.exception_handler(Exception)
    async def unknown(_: Request, exc: Exception) -> Response:
        # starlette raises it on, and uvicorn logs it
        return json_reply(error_reply(internal_error()), 500)
