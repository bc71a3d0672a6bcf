"""`/v1/responses`: make one, plain or streamed; show, list the input of, and delete a kept one."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Request, Response

from server import sse
from server.config import Settings
from server.errors import CallwrightError, InvalidRequest
from server.openapi import Operation
from server.parts import Parts
from server.responses.request import ResponsesRequest, parse_responses_request
from server.responses.service import Page, Running
from server.responses.types import Deleted, ItemList, ResponseObject, StreamEvent
from server.routes.common import check_model, given_key, internal_error, json_reply
from server.routes.examples import RESPONSES_EXAMPLES
from server.transport import ClientGone, EventStream, unless_gone, with_pauses
from server.wire.replies import to_json

log = logging.getLogger(__name__)

MAX_PAGE = 100
_ID = "resp_a1b2c3"

CREATE = Operation(
    "Make a response, with text or with calls of tools",
    description="Goes on from a kept response with `previous_response_id`. A failed stream ends"
    " with the events `response.failed` and `error`.",
    body=ResponsesRequest,
    reply=ResponseObject,
    event=StreamEvent,
    examples=RESPONSES_EXAMPLES,
    done=False,
)
RETRIEVE = Operation("A kept response", reply=ResponseObject, errors=(404,), named=_ID)
DELETE = Operation("Delete a kept response", reply=Deleted, errors=(404,), named=_ID)
INPUT_ITEMS = Operation(
    "The input of a kept response",
    reply=ItemList,
    errors=(400, 404),
    named=_ID,
    query={
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 20},
        "order": {"type": "string", "enum": ["asc", "desc"], "default": "desc"},
        "after": {"type": "string"},
    },
)
CANCEL = Operation(
    "Always refused: only responses made in the background can be cancelled",
    reply=ResponseObject,
    errors=(400, 404),
    named=_ID,
)


def router(parts: Parts) -> APIRouter:
    routes = APIRouter()

    @routes.post("/v1/responses", openapi_extra=CREATE.extra)
    async def create(request: Request) -> Response:
        wanted = await parts.bodies.parsed(
            request, lambda body: parse_responses_request(body, parts.settings)
        )
        check_model(wanted.model, parts)
        owner = _owner(request, parts.settings)
        try:
            running = await unless_gone(request, parts.responses.start(wanted, owner))
            if wanted.stream:
                return EventStream(_stream(running, parts.settings.ping_s))
            return await unless_gone(request, _plain(running))
        except ClientGone:
            return Response(status_code=499)  # nobody reads it

    @routes.get("/v1/responses/{id}", openapi_extra=RETRIEVE.extra)
    async def retrieve(request: Request, id: str) -> Response:
        _refuse_query(request, "include", "stream", "starting_after")
        return json_reply(await parts.responses.retrieve(id, _owner(request, parts.settings)))

    @routes.delete("/v1/responses/{id}", openapi_extra=DELETE.extra)
    async def delete(request: Request, id: str) -> Response:
        return json_reply(await parts.responses.delete(id, _owner(request, parts.settings)))

    @routes.get("/v1/responses/{id}/input_items", openapi_extra=INPUT_ITEMS.extra)
    async def input_items(request: Request, id: str) -> Response:
        _refuse_query(request, "include")
        owner = _owner(request, parts.settings)
        return json_reply(await parts.responses.input_items(id, owner, _page(request)))

    @routes.post("/v1/responses/{id}/cancel", openapi_extra=CANCEL.extra)
    async def cancel(request: Request, id: str) -> Response:
        await parts.responses.retrieve(id, _owner(request, parts.settings))
        raise InvalidRequest(
            "only responses made in the background can be cancelled, and there are none here: to"
            " end one that is being made, close its connection"
        )

    return routes


async def _plain(running: Running) -> Response:
    async with aclosing(running.events()) as source:
        async for _ in source:
            pass  # the writer has it all
    return json_reply(running.writer.response)


async def _stream(running: Running, ping_s: float) -> AsyncGenerator[bytes, None]:
    async with aclosing(running.events()) as source:
        try:
            async with aclosing(with_pauses(source, ping_s)) as paced:
                async for told in paced:
                    yield sse.PING if told is None else _event(told)
            return
        except CallwrightError as exc:
            error = exc
        except Exception as exc:
            log.error("a stream failed", exc_info=exc)
            error = internal_error()
        for told in running.writer.failed(error, int(time.time())):
            yield _event(told)


def _event(told: StreamEvent) -> bytes:
    head: str = f"event: {told['type']}\n"
    return head.encode() + sse.event(to_json(told))


def _owner(request: Request, settings: Settings) -> str:
    """Who has a response: the key that it was made with, of which only a hash is kept."""
    if not settings.api_key:
        return ""
    return hashlib.sha256(b"callwright responses\0" + given_key(request)).hexdigest()


def _refuse_query(request: Request, *names: str) -> None:
    for name, value in request.query_params.items():
        if name.removesuffix("[]") in names and value.lower() != "false":
            raise InvalidRequest(
                f"{name} is not supported: a kept response is shown as it was made",
                param=name,
                code="unsupported_parameter",
            )


def _page(request: Request) -> Page:
    asked = request.query_params
    limit, order = asked.get("limit", "20"), asked.get("order", "desc")
    if not (re.fullmatch("[0-9]{1,3}", limit) and 1 <= int(limit) <= MAX_PAGE):
        raise InvalidRequest(f"limit must be a number from 1 to {MAX_PAGE}", param="limit")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order must be asc or desc", param="order")
    return Page(int(limit), order == "desc", asked.get("after"))
