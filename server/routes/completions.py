"""`POST /v1/completions`."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from fastapi import APIRouter, Request, Response

from server import sse
from server.chat import Answer
from server.errors import CallwrightError
from server.openapi import Operation
from server.parts import Parts
from server.routes.answers import all_events
from server.routes.common import check_model, internal_error, json_reply
from server.routes.examples import COMPLETION_EXAMPLES
from server.text_reply import Envelope, Indexed, TextWriter, fold_text
from server.transport import (
    ClientGone,
    EventStream,
    unless_gone,
    with_pauses,
)
from server.wire.completions import CompletionRequest, TextCompletion, parse_completion_request
from server.wire.ids import new_text_completion_id

log = logging.getLogger(__name__)


DESCRIBED = Operation(
    "Go on from a raw prompt",
    description="No chat template: special tokens in the prompt are read as such.",
    body=CompletionRequest,
    reply=TextCompletion,
    event=TextCompletion,
    examples=COMPLETION_EXAMPLES,
)


def router(parts: Parts) -> APIRouter:
    routes = APIRouter()

    @routes.post("/v1/completions", openapi_extra=DESCRIBED.extra)
    async def completions(request: Request) -> Response:
        wanted = await parts.bodies.parsed(
            request, lambda body: parse_completion_request(body, parts.settings)
        )
        check_model(wanted.model, parts)
        envelope = Envelope(new_text_completion_id(), int(time.time()), wanted.model)
        try:
            answers = await unless_gone(request, parts.completion.start(wanted))
            echoes = _echoes(wanted, parts)
            if wanted.stream:
                writer = TextWriter(envelope, echoes, wanted.n, wanted.stream_options.include_usage)
                return EventStream(_stream(answers, writer, parts.settings.ping_s))
            events = await unless_gone(request, _collected(answers))
            return json_reply(fold_text(events, echoes, wanted.n, envelope))
        except ClientGone:
            return Response(status_code=499)  # nobody reads it

    return routes


def _echoes(wanted: CompletionRequest, parts: Parts) -> list[str]:
    """What each choice begins with."""
    decode = parts.completion.decode
    texts = [decode(one, path="prompt") if wanted.echo else "" for one in wanted.prompt]
    return [text for text in texts for _ in range(wanted.n)]


async def _collected(answers: Sequence[Answer]) -> list[Indexed]:
    async with all_events(answers) as source:
        return [item async for item in source]


async def _stream(
    answers: Sequence[Answer], writer: TextWriter, ping_s: float
) -> AsyncGenerator[bytes, None]:
    async with all_events(answers) as source:
        try:
            if opening := writer.opening():
                yield opening
            async with aclosing(with_pauses(source, ping_s)) as paced:
                async for item in paced:
                    data = sse.PING if item is None else writer.write(*item)
                    if data:
                        yield data
        except CallwrightError as exc:
            yield sse.error_event(exc)
            return
        except Exception as exc:
            log.error("a stream failed", exc_info=exc)
            yield sse.error_event(internal_error())
            return
    yield writer.closing()
