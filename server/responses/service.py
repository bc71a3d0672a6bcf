"""The straight line of a response: input and history -> chat request -> events -> store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from server.chat import Answer, ChatService
from server.config import Settings
from server.errors import InvalidRequest, NotFound, TooLarge
from server.responses.database import Gone, Record, TooLong
from server.responses.items import REFERENCE, as_kept, kind_of, read_items
from server.responses.reply import ResponseWriter
from server.responses.request import ENCRYPTED_REASONING, ResponsesRequest
from server.responses.store import ResponseStore
from server.responses.translate import Translation, to_chat
from server.responses.types import Deleted, ItemList, ResponseObject, StreamEvent
from server.wire.base import clipped
from server.wire.body import JsonObject
from server.wire.ids import new_item_id

_PREVIOUS = "previous_response_id"


@dataclass(frozen=True)
class Page:
    """Which items of a list are wanted: so many, in this order, after the one with this id."""

    limit: int = 20
    descending: bool = True
    after: str | None = None


class ResponsesService:
    """Makes, keeps and shows responses. `owner` stands for the client's key: what is kept for one
    owner is not there for any other."""

    def __init__(
        self, settings: Settings, *, chat: ChatService, store: ResponseStore | None
    ) -> None:
        self._settings = settings
        self._chat = chat
        self._store = store

    async def start(self, request: ResponsesRequest, owner: str) -> Running:
        """Everything that can be refused is refused here, before the first event.

        Raises InvalidRequest, NotFound, TooLarge, StoreFailed, and what chat does.
        """
        if request.store and self._store is None:
            raise InvalidRequest("store: this server keeps no responses", param="store")
        store = None if request.store is False else self._store
        if store is not None:
            await store.check_writable()
        past = await self._past(request.previous_response_id, owner)
        given = await self._resolved(request.input, owner)
        if len(past) + len(given) > self._settings.max_messages:
            raise InvalidRequest(
                f"the conversation has {len(past) + len(given)} items, at most"
                f" {self._settings.max_messages} are taken",
                param="input" if len(given) > len(past) else _PREVIOUS,
            )
        translation = await asyncio.to_thread(_translated, request, past, given)
        try:
            answer = await self._chat.start(translation.request)
        except InvalidRequest as exc:
            raise translation.restated(exc) from None
        before = frame(request, stored=store is not None)
        seals = ENCRYPTED_REASONING in request.include
        writer = ResponseWriter(before, seals_reasoning=seals)
        return Running(answer, writer, given, owner, store)

    async def retrieve(self, id: str, owner: str) -> JsonObject:
        """A kept response. Raises NotFound."""
        try:
            return await self._kept(id).get(owner, id)
        except Gone:
            raise _not_found(id) from None

    async def delete(self, id: str, owner: str) -> Deleted:
        """Raises NotFound."""
        try:
            await self._kept(id).delete(owner, id)
        except Gone:
            raise _not_found(id) from None
        return {"id": id, "object": "response", "deleted": True}

    async def input_items(self, id: str, owner: str, page: Page) -> ItemList:
        """A response's own input. Raises NotFound, or InvalidRequest for a page that is none."""
        try:
            items = await self._kept(id).given(owner, id)
        except Gone:
            raise _not_found(id) from None
        return _listed(items, page)

    def close(self) -> None:
        """Let go of the store. Nothing may come later."""
        if self._store is not None:
            self._store.close()

    def _kept(self, id: str) -> ResponseStore:
        if self._store is None:
            raise _not_found(id)
        return self._store

    async def _past(self, id: str | None, owner: str) -> list[JsonObject]:
        """The items of all responses up to the one that this one goes on from."""
        if id is None:
            return []
        if self._store is None:
            raise InvalidRequest(
                f"{_PREVIOUS}: this server keeps no responses, send the whole input",
                param=_PREVIOUS,
            )
        limits = self._settings
        try:
            return await self._store.conversation(
                owner, id, max_responses=limits.max_messages, max_bytes=limits.max_body_bytes
            )
        except Gone as exc:
            before = "" if exc.id == id else f", which is before {clipped(id, 80)!r}"
            raise _not_found(exc.id, before, param=_PREVIOUS) from None
        except TooLong:
            raise TooLarge(
                f"{_PREVIOUS}: the conversation has more than {limits.max_messages} responses or"
                f" {limits.max_body_bytes} bytes",
                param=_PREVIOUS,
            ) from None

    async def _resolved(self, raw: Sequence[JsonObject], owner: str) -> tuple[JsonObject, ...]:
        """The input with the items themselves where it refers to them."""
        wanted = [str(item.get("id")) for item in raw if kind_of(item) == REFERENCE]
        found: dict[str, JsonObject] = {}
        if wanted and self._store is not None:
            found = await self._store.find_items(owner, wanted)
        resolved = []
        for index, item in enumerate(raw):
            if kind_of(item) != REFERENCE:
                resolved.append(item)
                continue
            id = str(item.get("id"))
            if id not in found:
                raise NotFound(
                    f"input[{index}] refers to the item {clipped(id, 80)!r}, which is not kept",
                    param=f"input[{index}].id",
                    code="item_not_found",
                )
            resolved.append(found[id])
        return tuple(resolved)


@dataclass
class Running:
    """A response under way. `events` once; leaving it early cancels the generation."""

    answer: Answer
    writer: ResponseWriter
    given: tuple[JsonObject, ...]
    owner: str
    store: ResponseStore | None

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """The events of the stream. Raises what generation or the store failed with.

        The response is kept before its end is told: whoever has read that can go on from it.
        """
        try:
            for told in self.writer.opening():
                yield told
            async with aclosing(self.answer.events()) as source:
                async for event in source:
                    for told in self.writer.write(event, int(time.time())):
                        yield told
            await self._keep()
            for told in self.writer.closing():
                yield told
        finally:
            self.answer.generation.cancel()  # also where its events were not asked for yet

    async def _keep(self) -> None:
        if self.store is None:
            return
        response = self.writer.response
        body = {name: value for name, value in response.items() if name != "output"}
        await self.store.save(
            Record(
                id=response["id"],
                owner=self.owner,
                previous=response["previous_response_id"],
                body=body,
                given=as_kept(self.given),
                output=tuple(dict(item) for item in response["output"]),
            )
        )


def _translated(
    request: ResponsesRequest, past: Sequence[JsonObject], given: Sequence[JsonObject]
) -> Translation:
    return to_chat(request, read_items(past), read_items(given))


def frame(request: ResponsesRequest, *, stored: bool) -> ResponseObject:
    """The response before anything was generated."""
    reasoning = request.reasoning
    return {
        "id": new_item_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "model": request.model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls,
        "previous_response_id": request.previous_response_id,
        "reasoning": {"effort": reasoning.effort, "summary": reasoning.summary},
        "store": stored,
        "temperature": request.temperature,
        "text": {
            "format": request.text.format.model_dump(by_alias=True, exclude_none=True),
            "verbosity": request.text.verbosity or "medium",
        },
        "tool_choice": request.tool_choice,
        "tools": [tool.as_shown() for tool in request.tools],
        "top_logprobs": request.top_logprobs,
        "top_p": request.top_p,
        "truncation": "disabled",
        "usage": None,
        "metadata": request.metadata,
    }


def _listed(items: list[JsonObject], page: Page) -> ItemList:
    if page.descending:
        items = items[::-1]
    if page.after is not None:
        places = [place for place, item in enumerate(items) if item["id"] == page.after]
        if not places:
            raise InvalidRequest("after: there is no item with this id", param="after")
        items = items[places[0] + 1 :]
    shown = items[: page.limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(items) > len(shown),
    }


def _not_found(id: str, more: str = "", *, param: str | None = None) -> NotFound:
    return NotFound(
        f"there is no response {clipped(id, 80)!r}{more}: it was deleted, has expired, was not"
        " stored, or is someone else's",
        param=param,
        code="previous_response_not_found" if param else "response_not_found",
    )
