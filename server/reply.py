"""Events of an answer as chunks of a stream, or folded into one plain answer. No I/O.

Both show the same: a call appears with the first piece of its arguments, empty pieces not at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from server.errors import CallwrightError
from server.events import (
    CallArguments,
    CallBegins,
    CallEnds,
    Event,
    Finish,
    Reasoning,
    Text,
)
from server.wire.replies import (
    AssistantMessage,
    Call,
    CallDelta,
    ChatCompletion,
    ChatCompletionChunk,
    ChunkChoice,
    Delta,
    error_reply,
    to_json,
    token_usage,
)

PING = b": ping\n\n"
"""A comment that keeps a silent stream alive."""

# JSON may hold these raw, but many clients split a stream into lines with a rule that counts them
# as line ends.
_LINE_ENDS = tuple((end.encode(), b"\\u%04x" % ord(end)) for end in "\u0085\u2028\u2029")


class ChunkWriter:
    """Writes the stream of one answer as server-sent events: `opening`, each event, then `done`.

    Every method returns what is to be sent next, complete events or nothing.
    """

    def __init__(self, id: str, created: int, model: str, include_usage: bool) -> None:
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._unopened: CallBegins | None = None

    def opening(self) -> bytes:
        """The role, to be sent before prefill so that clients see the answer has begun."""
        return self._delta({"role": "assistant"})

    def write(self, event: Event) -> bytes:
        match event:
            case Text(text):
                return self._delta({"content": text}) if text else b""
            case Reasoning(text):
                return self._delta({"reasoning_content": text}) if text else b""
            case CallBegins():
                self._unopened = event
                return b""
            case CallArguments():
                return self._arguments(event) if event.text else b""
            case CallEnds():
                return b""
            case Finish():
                return self._finish(event)

    def error(self, error: CallwrightError) -> bytes:
        """The end of a stream that failed; nothing follows, also not `done`.

        Clients differ in what they heed, the event's name or the key in its data: both are there.
        """
        return b"event: error\n" + _sse(to_json(error_reply(error)))

    def done(self) -> bytes:
        return b"data: [DONE]\n\n"

    def _arguments(self, event: CallArguments) -> bytes:
        """Further arguments; before the first of a call its header, in the same bytes.

        A client that is cut off between the two would run the call with no arguments.
        """
        header = b""
        if self._unopened is not None:
            begun, self._unopened = self._unopened, None
            header = self._call_delta(
                {
                    "index": begun.index,
                    "id": begun.id,
                    "type": "function",
                    "function": {"name": begun.name, "arguments": ""},
                }
            )
        return header + self._call_delta(
            {"index": event.index, "function": {"arguments": event.text}}
        )

    def _finish(self, event: Finish) -> bytes:
        last = self._chunk([{"index": 0, "delta": {}, "finish_reason": event.reason}])
        if event.timings is not None:
            last["timings"] = dict(event.timings)
        if not self._include_usage:
            return _sse(to_json(last))
        counts = self._chunk([])
        counts["usage"] = token_usage(event.usage)
        return _sse(to_json(last)) + _sse(to_json(counts))

    def _call_delta(self, delta: CallDelta) -> bytes:
        return self._delta({"tool_calls": [delta]})

    def _delta(self, delta: Delta) -> bytes:
        return _sse(to_json(self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])))

    def _chunk(self, choices: list[ChunkChoice]) -> ChatCompletionChunk:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }


def fold(events: Iterable[Event], *, id: str, created: int, model: str) -> ChatCompletion:
    """The plain answer of a complete sequence of events.

    `content` is null where there is no text, so always beside a forced call. Raises ValueError if
    the events do not end in Finish.
    """
    text: list[str] = []
    reasoning: list[str] = []
    calls: list[tuple[CallBegins, list[str]]] = []
    begun: CallBegins | None = None
    for event in events:
        match event:
            case Text(piece):
                text.append(piece)
            case Reasoning(piece):
                reasoning.append(piece)
            case CallBegins():
                begun = event
            case CallArguments(_, piece) if piece:
                if begun is not None:
                    calls.append((begun, []))
                    begun = None
                calls[-1][1].append(piece)
            case Finish(reason, usage, timings):
                message = _message("".join(text), "".join(reasoning), calls)
                reply: ChatCompletion = {
                    "id": id,
                    "object": "chat.completion",
                    "created": created,
                    "model": model,
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                    "usage": token_usage(usage),
                }
                if timings is not None:
                    reply["timings"] = dict(timings)
                return reply
    raise ValueError("the events of an answer end in Finish")


def _message(
    text: str, reasoning: str, calls: list[tuple[CallBegins, list[str]]]
) -> AssistantMessage:
    message: AssistantMessage = {"role": "assistant", "content": text or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [_call(begun, "".join(pieces)) for begun, pieces in calls]
    return message


def _call(begun: CallBegins, arguments: str) -> Call:
    return {
        "id": begun.id,
        "type": "function",
        "function": {"name": begun.name, "arguments": arguments},
    }


def _sse(data: bytes) -> bytes:
    for end, escape in _LINE_ENDS:
        data = data.replace(end, escape)
    return b"data: " + data + b"\n\n"
