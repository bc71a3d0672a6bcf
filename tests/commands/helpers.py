"""Fakes for the tests of commands: an endpoint and a chat server that follow a script."""

from __future__ import annotations

import asyncio
import http.server
import json
import signal
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from server.commands.endpoint import Done, Piece
from server.events import CallArguments, CallBegins, CallEnds, Text, Usage
from server.wire.body import JsonObject

WEATHER: JsonObject = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
CALL: tuple[Piece, ...] = (
    CallBegins(0, "abcdefgh1", "get_weather"),
    CallArguments(0, '{"city":'),
    CallArguments(0, ' "Porto"}'),
    CallEnds(0),
    Done("tool_calls", Usage(20, 9, cached_tokens=4), 7),
)
CTRL_C = "Ctrl-C"


def text(*pieces: str) -> tuple[Piece, ...]:
    return (*map(Text, pieces), Done("stop", Usage(10, len(pieces))))


class ScriptedEndpoint:
    """Gives the answers in turn; an exception is raised, CTRL_C is pressed by the user."""

    model = "scripted"

    def __init__(self, *answers: Sequence[Piece | Exception | str]) -> None:
        self._answers = list(answers)
        self.requests: list[JsonObject] = []
        self.closed = 0

    async def answer(self, request: JsonObject) -> AsyncGenerator[Piece, None]:
        self.requests.append(json.loads(json.dumps(request)))  # as it is now
        try:
            for piece in self._answers.pop(0):
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, str):
                    signal.raise_signal(signal.SIGINT)
                    await asyncio.sleep(60)
                else:
                    yield piece
        finally:
            self.closed += 1


@dataclass(frozen=True)
class Answer:
    """What the server sends; `hangs`: the connection then stays open."""

    body: bytes
    status: int = 200
    hangs: bool = False


def sse(*chunks: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + end


def delta(finish: str | None = None, **values: Any) -> JsonObject:
    return {"choices": [{"index": 0, "delta": values, "finish_reason": finish}]}


def call_delta(
    name: str | None, arguments: str | None, index: int | None = 0, id: str | None = "call1"
) -> JsonObject:
    function = {"name": name, "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": id, "function": function}])


CALL_STREAM = sse(
    delta(role="assistant", content=None),
    call_delta("get_weather", ""),
    call_delta(None, '{"city":', id=None),
    call_delta(None, ' "Porto"}', id=None),
    delta("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 9}},
)
MODELS = Answer(b'{"object": "list", "data": [{"id": "first"}, {"id": "second"}]}')


def text_stream(*pieces: str, finish: str = "stop") -> Answer:
    return Answer(sse(*(delta(content=piece) for piece in pieces), delta(finish)))


@dataclass
class ChatServer:
    """`requests` are path, headers and body of what came."""

    url: str
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@contextmanager
def chat_server(*answers: Answer) -> Iterator[ChatServer]:
    """A server on loopback that gives the answers in turn, whatever is asked."""
    script = list(answers)
    leave = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {key.lower(): value for key, value in self.headers.items()}
            server.requests.append((self.path, headers, body))
            answer = script.pop(0)
            self.send_response(answer.status)
            self.end_headers()
            self.wfile.write(answer.body)
            self.wfile.flush()
            if answer.hangs:
                leave.wait(60)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        server = ChatServer(f"http://127.0.0.1:{listener.server_port}")
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            leave.set()
            listener.shutdown()
            thread.join()
