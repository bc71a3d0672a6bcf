"""What LangChain4j makes of an answer, as far as a server can get it wrong.

It reads a stream twice: one reader drives the callbacks, which may run a tool before the stream has
ended, the other builds the message that goes into the history. They differ in what they forgive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Every POST of its default transport, which is the JDK's own client, also on a reused connection.
JDK_HEADERS = {
    "Connection": "Upgrade, HTTP2-Settings",
    "HTTP2-Settings": "AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
    "Upgrade": "h2c",
    "Content-Type": "application/json",
    "User-Agent": "langchain4j-openai",
}


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: str


@dataclass
class _Parts:
    id: str = ""
    name: str = ""
    arguments: str = ""

    def done(self, *, if_empty: str) -> Call:
        return Call(self.id, self.name, self.arguments or if_empty)


@dataclass
class FinalMessage:
    """The message for the history: by index; ids, names and arguments are appended."""

    calls: dict[int, _Parts] = field(default_factory=dict)
    last_index: int = 0

    def take(self, delta: dict[str, Any]) -> None:
        function = delta.get("function") or {}
        pieces = (delta.get("id"), function.get("name"), function.get("arguments"))
        if pieces == (None, None, None):
            return
        index = delta.get("index")
        self.last_index = self.last_index if index is None else index
        parts = self.calls.setdefault(self.last_index, _Parts())
        parts.id += pieces[0] or ""
        parts.name += pieces[1] or ""
        parts.arguments += pieces[2] or ""

    def end(self) -> list[Call]:
        return [self.calls[index].done(if_empty="") for index in sorted(self.calls)]


@dataclass
class LiveCalls:
    """The callbacks: a call is complete, and may be run, when the index changes."""

    index: int = 0
    parts: _Parts = field(default_factory=_Parts)
    completed: list[Call] = field(default_factory=list)

    def take(self, delta: dict[str, Any]) -> None:
        index, call_id = delta.get("index"), delta.get("id")
        if index is None:
            other = bool(call_id and self.parts.id and call_id != self.parts.id)
            index = self.index + other
        if index != self.index:
            self._complete()  # also one without a name, which is then a ghost
            self.index = index
        function = delta.get("function") or {}
        self.parts.id = call_id or self.parts.id
        self.parts.name = function.get("name") or self.parts.name
        self.parts.arguments += function.get("arguments") or ""

    def end(self) -> list[Call]:
        if self.parts.name:
            self._complete()
        return self.completed

    def _complete(self) -> None:
        self.completed.append(self.parts.done(if_empty="{}"))
        self.parts = _Parts()


@dataclass
class Answer:
    """What a listener is told; `errors` are the events of that name."""

    text: str = ""
    live: list[Call] = field(default_factory=list)
    final: list[Call] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    errors: list[str] = field(default_factory=list)


def read_stream(stream: str) -> Answer:
    """Both readers over a whole stream. A chunk that a strict client rejects is an assertion."""
    answer, live, final = Answer(), LiveCalls(), FinalMessage()
    for event, data in events(stream):
        if event == "error":
            answer.errors.append(data)
            continue
        chunk = json.loads(data)
        assert chunk["object"] == "chat.completion.chunk"
        assert {"id", "created", "model", "choices"} <= chunk.keys()
        assert "error" not in chunk
        answer.usage = chunk.get("usage") or answer.usage
        for choice in chunk["choices"][:1]:
            answer.finish_reason = choice["finish_reason"] or answer.finish_reason
            answer.text += choice["delta"].get("content") or ""
            for delta in choice["delta"].get("tool_calls") or []:
                _check_delta(delta)
                live.take(delta)
                final.take(delta)
    answer.live, answer.final = live.end(), final.end()
    return answer


def _check_delta(delta: dict[str, Any]) -> None:
    assert None not in delta.values()
    assert None not in delta["function"].values()
    pieces = delta["function"].get("arguments", "")
    assert not pieces or pieces.strip(), "a piece of white space once crashed it"


def events(stream: str) -> Iterator[tuple[str | None, str]]:
    """Name and data of each event, without `[DONE]`. Other lines than these two are passed over."""
    event, data = None, list[str]()
    for line in [*re.split(r"\r\n|\r|\n", stream), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event" and line:
            event = value.strip()
        elif name == "data" and line:
            data.append(value)
        elif not line:
            if data and "\n".join(data) != "[DONE]":
                yield event, "\n".join(data)
            event, data = None, []


def read_plain(answer: dict[str, Any]) -> Answer:
    """A plain answer; what it would throw at, or silently pass over, is an assertion."""
    assert isinstance(answer["created"], int)
    assert {"id", "model", "object"} <= answer.keys()
    [choice] = answer["choices"]
    message = choice["message"]
    assert isinstance(message.get("content"), str | None)
    assert not message.get("refusal")
    calls = []
    for call in message.get("tool_calls") or []:
        assert call["type"] == "function", "it filters out calls of any other type"
        assert call["id"], "it sends a call without id back in the legacy shape"
        assert isinstance(call["function"]["arguments"], str)
        calls.append(Call(call["id"], call["function"]["name"], call["function"]["arguments"]))
    text, reason = message.get("content") or "", choice["finish_reason"]
    assert reason in ("stop", "length", "tool_calls")
    return Answer(text, calls, calls, reason, answer["usage"])
