"""A chat server on loopback that answers what is asked, and makes mistakes when told to."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from server.bench.load import Block, Sample
from server.bench.workloads import WORKLOADS, Closed, Level
from server.wire.body import JsonObject
from tests.commands.helpers import Answer, call_delta, delta, sse

Brain = Callable[[JsonObject], Answer]


def usage(body: JsonObject, output: int = 7) -> JsonObject:
    """A token for each character of the messages, half of them cached."""
    prompt = len(json.dumps(body["messages"]))
    return {
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "prompt_tokens_details": {"cached_tokens": prompt // 2},
        },
    }


def arguments_for(schema: JsonObject) -> JsonObject:
    """Some that satisfy the parameters of a tool of the workloads."""
    samples = {"string": "some text", "integer": 3}
    return {
        name: one["enum"][0] if "enum" in one else samples[one["type"]]
        for name, one in schema["properties"].items()
    }


def right(body: JsonObject) -> Answer:
    """The answer that was asked for, in each mode."""
    if "tools" in body:
        function = body["tools"][0]["function"]
        arguments = json.dumps(arguments_for(function["parameters"]))
        chunks = [call_delta(function["name"], ""), call_delta(None, arguments, id=None)]
        finish = "tool_calls"
    else:
        chunks = [delta(content=piece) for piece in ("Once", " upon", " a time")]
        finish = "stop"
        if "response_format" in body:
            chunks = [delta(content=json.dumps(written_call(body["response_format"])))]
    return Answer(sse(delta(role="assistant"), *chunks, delta(finish), usage(body)))


def written_call(response_format: JsonObject) -> JsonObject:
    inner = response_format.get("json_schema", response_format)
    properties = inner["schema"]["anyOf"][0]["properties"]
    return {
        "name": properties["name"]["enum"][0],
        "arguments": arguments_for(properties["arguments"]),
    }


@dataclass
class FakeServer:
    """`bodies` are of the chat requests that came; `most` how many of them at the same time."""

    url: str
    brain: Brain
    passes: float | None = 0.0
    bodies: list[JsonObject] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    running: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: str) -> Answer:
        if path == "/v1/models":
            return Answer(b'{"data": [{"id": "fake"}]}')
        if path == "/props":
            return Answer(b'{"build_info": "b1-fake"}')
        if path == "/metrics" and self.passes is not None:
            name = "callwright:forward_passes_total"
            text = f"# TYPE {name} counter\nother 5\n{name} {self.passes}\n"
            return Answer(text.encode())
        return Answer(b"{}", 404)

    def post(self, body: JsonObject) -> Answer:
        with self.lock:
            self.bodies.append(body)
            self.running += 1
            self.most = max(self.most, self.running)
            if self.passes is not None:
                self.passes += 11
        try:
            return self.brain(body)
        finally:
            with self.lock:
                self.running -= 1


class _Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 64  # with the usual 5, some of many connections come seconds late


@contextmanager
def fake_server(
    brain: Brain = right, passes: float | None = 0.0, port: int = 0
) -> Iterator[FakeServer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.give(server.get(self.path))

        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            server.keys.add(self.headers.get("authorization"))
            length = int(self.headers["content-length"])
            self.give(server.post(json.loads(self.rfile.read(length))))

        def give(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:
            pass

    with _Listener(("127.0.0.1", port), Handler) as listener:
        server = FakeServer(f"http://127.0.0.1:{listener.server_port}", brain, passes)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()


def level(name: str = "warm5", clients: int = 1) -> Level:
    return Level(WORKLOADS[name], Closed(clients))


def sample(wall_s: float = 1.0, fault: str | None = None, **values: Any) -> Sample:
    defaults: dict[str, Any] = {
        "turn": 0,
        "first_s": wall_s / 2,
        "stream_rate": 10.0,
        "prompt_tokens": 100,
        "output_tokens": 20,
        "cached_tokens": 90,
        "previous_prompt_tokens": None,
    }
    return Sample(wall_s=wall_s, fault=fault, **{**defaults, **values})


def block(*samples: Sample, seconds: float = 4.0, passes: float | None = None) -> Block:
    return Block(samples, seconds, passes)
