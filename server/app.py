"""The HTTP application: its routes, its errors, and the life of the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from server.errors import Busy, CallwrightError, InvalidRequest, NotFound
from server.parts import Parts
from server.routes import chat, service
from server.routes.common import internal_error, json_reply, needs_key
from server.wire.replies import error_reply

log = logging.getLogger(__name__)

KEYED = (service.router, chat.router)


def create_app(parts: Parts) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.engine.start()
        yield
        await asyncio.to_thread(parts.engine.stop, parts.settings.shutdown_grace_s)
        parts.compiler.close()

    app = FastAPI(title="Callwright", lifespan=lifespan, docs_url="/docs", redoc_url=None)
    _add_errors(app)
    app.include_router(service.open_router(parts))
    for router in KEYED:
        app.include_router(router(parts), dependencies=[Depends(needs_key(parts.settings))])
    if parts.settings.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(parts.settings.cors_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
    return app


def _add_errors(app: FastAPI) -> None:
    """The one place where errors become HTTP."""

    @app.exception_handler(CallwrightError)
    async def known(_: Request, exc: CallwrightError) -> Response:
        # Not the message: it may quote what the client wrote.
        log.info("refused status=%d code=%s param=%s", exc.status, exc.code, exc.param)
        headers = {"retry-after": str(exc.retry_after_s)} if isinstance(exc, Busy) else None
        return json_reply(error_reply(exc), exc.status, headers)

    @app.exception_handler(HTTPException)
    async def route(_: Request, exc: HTTPException) -> Response:
        error: CallwrightError = NotFound("there is no such route")
        if exc.status_code != 404:
            error = InvalidRequest(str(exc.detail))
        return json_reply(error_reply(error), exc.status_code, dict(exc.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, exc: RequestValidationError) -> Response:
        return json_reply(error_reply(InvalidRequest("the request is malformed")), 400)

    @app.exception_handler(Exception)
    async def unknown(_: Request, exc: Exception) -> Response:
        # starlette raises it on, and uvicorn logs it
        return json_reply(error_reply(internal_error()), 500)
