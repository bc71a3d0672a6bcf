"""The HTTP application: routes, keys, errors, and the life of the engine."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from server.chat import Answer, ChatService
from server.config import Settings
from server.constraint import ConstraintCompiler
from server.engine.engine import Engine
from server.errors import (
    Busy,
    CallwrightError,
    InvalidRequest,
    NotFound,
    Unauthorized,
)
from server.events import Event
from server.metrics import Metrics
from server.reply import PING, ChunkWriter, fold
from server.transport import ClientGone, EventStream, read_body, unless_gone, with_pauses
from server.wire.chat import ChatRequest, parse_chat_request
from server.wire.ids import new_completion_id
from server.wire.replies import error_reply, model_list, to_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """What the application is made of. `model_names`: the main one first."""

    settings: Settings
    engine: Engine
    compiler: ConstraintCompiler
    chat: ChatService
    metrics: Metrics
    model_names: tuple[str, ...]


def create_app(parts: Parts) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.engine.start()
        yield
        await asyncio.to_thread(parts.engine.stop, parts.settings.shutdown_grace_s)
        parts.compiler.close()

    app = FastAPI(title="Callwright", lifespan=lifespan, docs_url="/docs", redoc_url=None)
    _add_errors(app)
    _add_routes(app, parts, created=int(time.time()))
    if parts.settings.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(parts.settings.cors_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
    return app


def _add_routes(app: FastAPI, parts: Parts, created: int) -> None:
    @app.get("/health")
    async def health() -> dict[str, Any]:
        load = parts.engine.load
        return {"status": "ok", "model": parts.model_names[0], "running": load.running,
                "waiting": load.waiting}  # fmt: skip

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(parts.metrics.text(), media_type=parts.metrics.content_type)

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        _check_key(request, parts.settings)
        return _json(model_list(parts.model_names, created))

    @app.get("/v1/models/{name:path}")
    async def model(request: Request, name: str) -> Response:
        _check_key(request, parts.settings)
        _check_model(name, parts)
        return _json(model_list([name], created)["data"][0])

    @app.post("/v1/chat/completions", openapi_extra=_chat_openapi())
    async def chat_completions(request: Request) -> Response:
        _check_key(request, parts.settings)
        body = await read_body(request, parts.settings.max_body_bytes)
        wanted = await asyncio.to_thread(parse_chat_request, body, parts.settings)
        _check_model(wanted.model, parts)
        try:
            answer = await unless_gone(request, parts.chat.start(wanted))
            if wanted.stream:
                return EventStream(_stream(answer, wanted, parts.settings.ping_s))
            return await unless_gone(request, _plain(answer, wanted))
        except ClientGone:
            return Response(status_code=499)  # nobody reads it


async def _plain(answer: Answer, wanted: ChatRequest) -> Response:
    events: list[Event] = []
    async with aclosing(answer.events()) as source:
        async for event in source:
            events.append(event)
    reply = fold(events, id=new_completion_id(), created=int(time.time()), model=wanted.model)
    return _json(reply)


async def _stream(
    answer: Answer, wanted: ChatRequest, ping_s: float
) -> AsyncGenerator[bytes, None]:
    writer = ChunkWriter(
        new_completion_id(), int(time.time()), wanted.model, wanted.stream_options.include_usage
    )
    async with aclosing(answer.events()) as source:
        try:
            yield writer.opening()
            async with aclosing(with_pauses(source, ping_s)) as paced:
                async for event in paced:
                    data = PING if event is None else writer.write(event)
                    if data:
                        yield data
        except CallwrightError as exc:
            yield writer.error(exc)
            return
        except Exception as exc:
            log.error("a stream failed", exc_info=exc)
            yield writer.error(_internal())
            return
    yield writer.done()


def _check_key(request: Request, settings: Settings) -> None:
    if not settings.api_key:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        given = request.headers.get("x-api-key", "")
    raw = given.strip().encode("latin-1")  # the bytes of the header, as starlette decoded them
    # Every key is compared, each in constant time: how long it takes says nothing.
    matches = [hmac.compare_digest(raw, key.encode()) for key in settings.api_key]
    if not any(matches):
        raise Unauthorized("a valid API key is needed, as `Authorization: Bearer …`")


def _check_model(name: str, parts: Parts) -> None:
    if name not in parts.model_names:
        raise NotFound(
            f"the model {name[:200]!r} is not served here, but {', '.join(parts.model_names)} is",
            param="model",
            code="model_not_found",
        )


def _json(reply: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(reply), status, headers, media_type="application/json")


def _chat_openapi() -> dict[str, Any]:
    schema = ChatRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}}


def _add_errors(app: FastAPI) -> None:
    """The one place where errors become HTTP."""

    @app.exception_handler(CallwrightError)
    async def known(_: Request, exc: CallwrightError) -> Response:
        # Not the message: it may quote what the client wrote.
        log.info("refused status=%d code=%s param=%s", exc.status, exc.code, exc.param)
        headers = {"retry-after": str(exc.retry_after_s)} if isinstance(exc, Busy) else None
        return _json(error_reply(exc), exc.status, headers)

    @app.exception_handler(HTTPException)
    async def route(_: Request, exc: HTTPException) -> Response:
        error: CallwrightError = NotFound("there is no such route")
        if exc.status_code != 404:
            error = InvalidRequest(str(exc.detail))
        return _json(error_reply(error), exc.status_code, dict(exc.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, exc: RequestValidationError) -> Response:
        return _json(error_reply(InvalidRequest("the request is malformed")), 400)

    @app.exception_handler(Exception)
    async def unknown(_: Request, exc: Exception) -> Response:
        return _json(error_reply(_internal()), 500)  # starlette raises it on, and uvicorn logs it


def _internal() -> CallwrightError:
    return CallwrightError("the server failed on this request")
