"""HTTP/1.1 on a socket: uvicorn's protocol, with an end for whoever sends or reads too slowly.

uvicorn waits for ever for the rest of a request, and for a client to read its answer. Here both
have a time limit, connections a number, and what is no HTTP is refused in OpenAI's envelope too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from server.errors import CallwrightError, InvalidRequest, Overloaded, TooSlow
from server.wire.replies import error_reply, to_json


@dataclass(frozen=True)
class Bounds:
    """`client_timeout_s`: for a request to come in, and for an answer that is not read."""

    client_timeout_s: float
    max_connections: int


class BoundedProtocol(H11Protocol):
    """One connection. What uvicorn calls back is extended, never replaced."""

    def __init__(self, bounds: Bounds, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self._receiving = _Timer(self.loop, bounds.client_timeout_s, self._too_slow)
        self._sending = _Timer(self.loop, bounds.client_timeout_s, self._abort)
        self._closing = _Timer(self.loop, bounds.client_timeout_s, self._abort)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._bounds.max_connections:
            self._refuse(
                Overloaded(f"there are {self._bounds.max_connections} connections, no more fit")
            )
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        if not self._closing.runs:  # nothing more is wanted of who was refused
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._closing.start()
        else:
            self._watch()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._closing.start()  # the client may not have read all

    def pause_writing(self) -> None:
        super().pause_writing()
        self._sending.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._sending.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._receiving, self._sending, self._closing):
            timer.stop()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequest("this is no valid HTTP request"))

    def _watch(self) -> None:
        """Let the time run while a request is coming in: from its first byte, or, of the first one,
        from the opening of the connection.
        """
        if self._is_owed():
            self._receiving.start()
        else:
            self._receiving.stop()

    def _is_owed(self) -> bool:
        """Whether the client has to send the rest of a request."""
        if self.conn.their_state is h11.SEND_BODY:
            return True
        if self.conn.their_state is not h11.IDLE:
            return False
        return self.cycle is None or bool(self.conn.trailing_data[0])

    def _too_slow(self) -> None:
        self._refuse(
            TooSlow(f"the request took longer than {self._bounds.client_timeout_s:g} s to come")
        )

    def _refuse(self, error: CallwrightError) -> None:
        """Answer instead of the application, if it has not begun to, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = to_json(error_reply(error))
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(content)),
                (b"connection", b"close"),
            ]
            for event in (
                h11.Response(status_code=error.status, headers=headers),
                h11.Data(data=content),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # as if the client had left
            self.cycle.message_event.set()
        self.transport.close()
        self._closing.start()

    def _abort(self) -> None:
        self.transport.abort()


class _Timer:
    """Calls `act` once, `delay_s` after it was started, unless it is stopped before."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, delay_s: float, act: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._delay_s = delay_s
        self._act = act
        self._handle: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self) -> None:
        """Does nothing where it runs already."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._delay_s, self._act)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
