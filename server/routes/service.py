"""Routes about the server itself: its models, its health, its metrics."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Response

from server.parts import Parts
from server.routes.common import check_model, json_reply
from server.wire.replies import model_list


def open_router(parts: Parts) -> APIRouter:
    """What needs no key."""
    routes = APIRouter()

    @routes.get("/health")
    async def health() -> dict[str, Any]:
        load = parts.engine.load
        return {"status": "ok", "model": parts.model_names[0], "running": load.running,
                "waiting": load.waiting}  # fmt: skip

    @routes.get("/metrics")
    async def metrics() -> Response:
        return Response(parts.metrics.text(), media_type=parts.metrics.content_type)

    return routes


def router(parts: Parts) -> APIRouter:
    routes = APIRouter()
    created = int(time.time())

    @routes.get("/v1/models")
    async def models() -> Response:
        return json_reply(model_list(parts.model_names, created))

    @routes.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        check_model(name, parts)
        return json_reply(model_list([name], created)["data"][0])

    return routes
