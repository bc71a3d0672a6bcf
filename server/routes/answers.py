"""Several answers to one request as one stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from server.chat import Answer
from server.events import Event
from server.transport import interleaved


@asynccontextmanager
async def all_events(
    answers: Sequence[Answer],
) -> AsyncIterator[AsyncGenerator[tuple[int, Event], None]]:
    """The events of all answers as they come, each with the index of its answer.

    The first answer to fail ends it; at the end every generation has ended.
    """
    async with AsyncExitStack() as stack:
        for one in answers:
            stack.callback(one.generation.cancel)  # also of those whose events nobody came to ask
        sources = [await stack.enter_async_context(aclosing(one.events())) for one in answers]
        yield await stack.enter_async_context(aclosing(interleaved(sources)))
