"""The HTTP application: its routes, its errors, and the life of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from server.errors import Busy, CallwrightError, InvalidRequest
from server.logs import log_refusal
from server.openapi import EXTRA, Route, document
from server.origins import OriginGuard
from server.parts import Parts
from server.routes import chat, completions, responses, service, tokens
from server.routes.absent import Routes
from server.routes.common import internal_error, json_reply, needs_key
from server.wire.replies import error_reply

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
    app: FastAPI = FastAPIOffline(
        "/docs", None, static_url="/docs/static", title="Callwright", lifespan=lifespan
    )
    unkeyed = service.open_router(parts)
    keyed = [router(parts) for router in KEYED]
    described = _described([unkeyed, *keyed])
    _add_errors(app, Routes((method, path) for method, path, _ in described))
    _let_head_in([unkeyed, *keyed])
    app.include_router(unkeyed)
    for router in keyed:
        app.include_router(router, dependencies=[Depends(needs_key(parts.settings))])
    app.openapi = partial(  # type: ignore[method-assign]
        document,
        described,
        model_names=parts.model_names,
        needs_key=bool(parts.settings.api_key),
    )
    app.add_middleware(OriginGuard, settings=parts.settings)
    if parts.settings.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(parts.settings.cors_origin),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
        )
    return app


def _described(routers: Sequence[APIRouter]) -> list[Route]:
    """The routes that the document speaks of."""
    return [
        (method, route.path_format, extra[EXTRA])
        for route in _routes(routers)
        if (extra := route.openapi_extra) and EXTRA in extra
        for method in sorted(route.methods or ())
    ]


def _let_head_in(routers: Sequence[APIRouter]) -> None:
    """Answer HEAD as GET, without the body, which the protocol leaves out."""
    for route in _routes(routers):
        methods = route.methods or set()
        if "GET" in methods:
            methods.add("HEAD")


def _routes(routers: Sequence[APIRouter]) -> list[APIRoute]:
    return [one for router in routers for one in router.routes if isinstance(one, APIRoute)]


def _add_errors(app: FastAPI, routes: Routes) -> None:
    """The one place where errors become HTTP."""

    @app.exception_handler(CallwrightError)
    async def known(_: Request, exc: CallwrightError) -> Response:
        log_refusal(exc, exc.status)
        headers = {"retry-after": str(exc.retry_after_s)} if isinstance(exc, Busy) else None
        return json_reply(error_reply(exc), exc.status, headers)

    @app.exception_handler(HTTPException)
    async def route(request: Request, exc: HTTPException) -> Response:
        headers = dict(exc.headers or {})
        error: CallwrightError = InvalidRequest(str(exc.detail))
        if exc.status_code == 404:
            error = routes.none(request.url.path)
        elif exc.status_code == 405:
            error = routes.none_with(request.method, headers.get("Allow", ""))
        log_refusal(error, exc.status_code)
        return json_reply(error_reply(error), exc.status_code, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, exc: RequestValidationError) -> Response:
        return json_reply(error_reply(InvalidRequest("the request is malformed")), 400)

    @app.exception_handler(Exception)
    async def unknown(_: Request, exc: Exception) -> Response:
        # starlette raises it on, and uvicorn logs it
        return json_reply(error_reply(internal_error()), 500)
