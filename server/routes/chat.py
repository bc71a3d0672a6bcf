"""`POST /v1/chat/completions`."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from fastapi import APIRouter, Request, Response

from server import sse
from server.chat import Answer
from server.errors import CallwrightError
from server.events import Event
from server.openapi import Operation
from server.parts import Parts
from server.reply import ChunkWriter, fold
from server.routes.answers import all_events
from server.routes.common import check_model, internal_error, json_reply
from server.routes.examples import CHAT_EXAMPLES
from server.transport import ClientGone, EventStream, unless_gone, with_pauses
from server.wire.chat import ChatRequest, parse_chat_request
from server.wire.ids import new_completion_id
from server.wire.replies import ChatCompletion, ChatCompletionChunk

log = logging.getLogger(__name__)


DESCRIBED = Operation(
    "Answer a conversation, with text or with calls of tools",
    description="Calls always parse and satisfy the schema of their tool.",
    body=ChatRequest,
    reply=ChatCompletion,
    event=ChatCompletionChunk,
    examples=CHAT_EXAMPLES,
)


def router(parts: Parts) -> APIRouter:
    routes = APIRouter()

    @routes.post("/v1/chat/completions", openapi_extra=DESCRIBED.extra)
    async def chat_completions(request: Request) -> Response:
        wanted = await parts.bodies.parsed(
            request, lambda body: parse_chat_request(body, parts.settings)
        )
        check_model(wanted.model, parts)
        try:
            answers = await unless_gone(request, parts.chat.start_all(wanted))
            if wanted.stream:
                return EventStream(_stream(answers, wanted, parts.settings.ping_s))
            return await unless_gone(request, _plain(answers, wanted))
        except ClientGone:
            return Response(status_code=499)  # nobody reads it

    return routes


async def _plain(answers: Sequence[Answer], wanted: ChatRequest) -> Response:
    events: list[list[Event]] = [[] for _ in answers]
    async with all_events(answers) as source:
        async for index, event in source:
            events[index].append(event)
    reply = fold(
        *events,
        id=new_completion_id(),
        created=int(time.time()),
        model=wanted.model,
        legacy=bool(wanted.functions),
        logprobs=wanted.logprobs,
    )
    return json_reply(reply)


async def _stream(
    answers: Sequence[Answer], wanted: ChatRequest, ping_s: float
) -> AsyncGenerator[bytes, None]:
    writer = ChunkWriter(
        new_completion_id(),
        int(time.time()),
        wanted.model,
        wanted.stream_options.include_usage,
        choices=len(answers),
        legacy=bool(wanted.functions),
    )
    async with all_events(answers) as source:
        try:
            yield writer.opening()
            async with aclosing(with_pauses(source, ping_s)) as paced:
                async for item in paced:
                    data = sse.PING if item is None else writer.write(item[1], item[0])
                    if data:
                        yield data
        except CallwrightError as exc:
            yield writer.error(exc)
            return
        except Exception as exc:
            log.error("a stream failed", exc_info=exc)
            yield writer.error(internal_error())
            return
    yield writer.done()
