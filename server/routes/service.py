"""Routes about the server itself: its models, its health, its metrics."""

from __future__ import annotations

import time
from typing import Literal

from fastapi import APIRouter, Response
from typing_extensions import TypedDict

from server.openapi import Operation
from server.parts import Parts
from server.routes.common import check_model, json_reply
from server.wire.replies import Model, ModelList, model_list


class Health(TypedDict):
    """`running` and `waiting` count requests."""

    status: Literal["ok"]
    model: str
    running: int
    waiting: int


HEALTH = Operation("Whether the server is well, and its load", reply=Health, keyed=False)
METRICS = Operation("Metrics for Prometheus", media_type="text/plain", keyed=False)
MODELS = Operation("The served model under each of its names", reply=ModelList)
MODEL = Operation("The served model under one of its names", reply=Model, errors=(404,))


def open_router(parts: Parts) -> APIRouter:
    """What needs no key."""
    routes = APIRouter()

    @routes.get("/health", openapi_extra=HEALTH.extra)
    async def health() -> Response:
        load = parts.engine.load
        reply: Health = {"status": "ok", "model": parts.model_names[0], "running": load.running,
                         "waiting": load.waiting}  # fmt: skip
        return json_reply(reply)

    @routes.get("/metrics", openapi_extra=METRICS.extra)
    async def metrics() -> Response:
        return Response(parts.metrics.text(), media_type=parts.metrics.content_type)

    return routes


def router(parts: Parts) -> APIRouter:
    routes = APIRouter()
    created = int(time.time())

    @routes.get("/v1/models", openapi_extra=MODELS.extra)
    async def models() -> Response:
        return json_reply(model_list(parts.model_names, created))

    @routes.get("/v1/models/{name:path}", openapi_extra=MODEL.extra)
    async def model(name: str) -> Response:
        check_model(name, parts)
        return json_reply(model_list([name], created)["data"][0])

    return routes
