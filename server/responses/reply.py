"""Events of an answer as the events of a response's stream, and as the finished response. No I/O.

Both are the same: the finished response has the items that the stream has shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from server.errors import CallwrightError, InvalidRequest
from server.events import (
    CallArguments,
    CallBegins,
    CallEnds,
    Event,
    Finish,
    Logprobs,
    Reasoning,
    Text,
    Usage,
)
from server.responses.items import seal
from server.responses.types import (
    OutputItem,
    ResponseObject,
    ResponseUsage,
    StreamEvent,
)
from server.wire.ids import new_item_id
from server.wire.logprobs import ContentEntry, choice_logprobs


@dataclass(frozen=True)
class _Kind:
    """How the stream of one kind of item is called. `holder` is where its text goes."""

    prefix: str
    holder: str
    delta: str
    done: str
    part: str | None = None  # the type of its one content part, for those that have parts


_MESSAGE = _Kind("msg", "text", "output_text.delta", "output_text.done", "output_text")
_REASONING = _Kind("rs", "text", "reasoning_text.delta", "reasoning_text.done", "reasoning_text")
_CALL = _Kind("fc", "arguments", "function_call_arguments.delta", "function_call_arguments.done")
_CUSTOM = _Kind("ctc", "input", "custom_tool_call_input.delta", "custom_tool_call_input.done")


class _Open:
    """The item that is being written."""

    def __init__(self, kind: _Kind, index: int, head: Mapping[str, Any]) -> None:
        self.kind = kind
        self.index = index
        self.id = new_item_id(kind.prefix)
        self.text: list[str] = []
        self.logprobs: list[ContentEntry] = []
        self._head = head

    def place(self) -> dict[str, Any]:
        """Which item, and which part of it, an event is about."""
        place: dict[str, Any] = {"item_id": self.id, "output_index": self.index}
        if self.kind.part:
            place["content_index"] = 0
        return place

    def part(self) -> dict[str, Any]:
        """Its content part with the text so far."""
        part: dict[str, Any] = {"type": self.kind.part, "text": "".join(self.text)}
        if self.kind is _MESSAGE:
            part |= {"annotations": [], "logprobs": list(self.logprobs)}
        return part

    def item(self, status: str) -> dict[str, Any]:
        item = {"id": self.id, **self._head, "status": status}
        if self.kind.part is None:
            item[self.kind.holder] = "".join(self.text)
        else:
            item["content"] = [] if status == "in_progress" else [self.part()]
        return item


class ResponseWriter:
    """Writes the stream of one response: `opening`, each event, `closing`, or in the end `failed`.

    `frame` is the response as it is before anything was generated. Every method returns the events
    that are to be sent next. `seals_reasoning`: reasoning is also given as one opaque text.
    """

    def __init__(self, frame: ResponseObject, *, seals_reasoning: bool) -> None:
        self.response = frame
        self._seals_reasoning = seals_reasoning
        self._output: list[OutputItem] = []
        self._open: _Open | None = None
        self._unopened: CallBegins | None = None
        self._scored: list[ContentEntry] = []  # of the tokens that the next event is made from
        self._count = 0

    def opening(self) -> list[StreamEvent]:
        """To be sent before prefill so that clients see the response has begun."""
        return [self._state("created"), self._state("in_progress")]

    def write(self, event: Event, now: int) -> list[StreamEvent]:
        """`now` in Unix seconds. After the last event `response` is the finished one."""
        match event:
            case Text(text):
                return self._spoken(_MESSAGE, text, {"type": "message", "role": "assistant"})
            case Reasoning(text):
                return self._spoken(_REASONING, text, {"type": "reasoning", "summary": []})
            case Logprobs(tokens):
                self._scored += choice_logprobs(tokens)["content"]
                return []
            case CallBegins():
                self._unopened = event
                return []
            case CallArguments(text=text):
                return [*self._opened_call(), *self._more(text)] if text else []
            case CallEnds():
                return [*self._opened_call(), *self._close()]
            case Finish():
                return self._finish(event, now)

    def closing(self) -> list[StreamEvent]:
        """The end, once the answer is complete."""
        return [self._state(self.response["status"])]

    def failed(self, error: CallwrightError, now: int) -> list[StreamEvent]:
        """The end of a stream that failed: what became of the response, then the error itself.

        Clients differ in where they look for an error, beside the type of its event or one level
        below it as in the envelope: it is in both places.
        """
        self.response = {
            **self.response,
            "status": "failed",
            "completed_at": None,
            "incomplete_details": None,
            "output": list(self._output),
            "error": {"code": _error_code(error), "message": error.message},
        }
        told = {"message": error.message, "code": error.code, "param": error.param}
        return [
            self._state("failed"),
            self._event("error", **told, error={"type": error.type, **told}),
        ]

    def _spoken(self, kind: _Kind, text: str, head: Mapping[str, Any]) -> list[StreamEvent]:
        if not text:
            return []
        if self._open is not None and self._open.kind is kind:
            return self._more(text)
        return [*self._close(), *self._begin(kind, head), *self._more(text)]

    def _opened_call(self) -> list[StreamEvent]:
        """What opens a call, unless that was sent."""
        begun, self._unopened = self._unopened, None
        if begun is None:
            return []
        kind = _CUSTOM if begun.custom else _CALL
        head = {
            "type": "custom_tool_call" if begun.custom else "function_call",
            "call_id": begun.id,
            "name": begun.name,
        }
        return [*self._close(), *self._begin(kind, head)]

    def _begin(self, kind: _Kind, head: Mapping[str, Any]) -> list[StreamEvent]:
        self._open = opened = _Open(kind, len(self._output), head)
        item = opened.item("in_progress")
        events = [self._event("output_item.added", output_index=opened.index, item=item)]
        if kind.part:
            events.append(self._event("content_part.added", **opened.place(), part=opened.part()))
        return events

    def _more(self, text: str) -> list[StreamEvent]:
        assert self._open is not None
        scored, self._scored = self._scored, []
        self._open.text.append(text)
        self._open.logprobs += scored
        extra = {"logprobs": scored} if self._open.kind is _MESSAGE else {}
        return [self._event(self._open.kind.delta, **self._open.place(), delta=text, **extra)]

    def _close(self, *, cut: bool = False) -> list[StreamEvent]:
        """The end of the item at hand, if there is one. The arguments of a cut call are not done:
        nobody is to run it."""
        opened, self._open = self._open, None
        if opened is None:
            return []
        events = []
        if opened.kind.part or not cut:
            done: dict[str, Any] = {opened.kind.holder: "".join(opened.text)}
            if opened.kind is _MESSAGE:
                done["logprobs"] = list(opened.logprobs)
            events.append(self._event(opened.kind.done, **opened.place(), **done))
        if opened.kind.part:
            events.append(self._event("content_part.done", **opened.place(), part=opened.part()))
        item = opened.item("incomplete" if cut else "completed")
        if opened.kind is _REASONING and self._seals_reasoning:
            item["encrypted_content"] = seal("".join(opened.text))
        self._output.append(cast(OutputItem, item))
        return [*events, self._event("output_item.done", output_index=opened.index, item=item)]

    def _finish(self, finish: Finish, now: int) -> list[StreamEvent]:
        cut = finish.reason == "length"
        events = self._close(cut=cut)
        only_thought = all(item["type"] == "reasoning" for item in self._output)
        if only_thought and not (cut and self._output):  # clients expect an answer, if an empty one
            head = {"type": "message", "role": "assistant"}
            events += [*self._begin(_MESSAGE, head), *self._close(cut=cut)]
        self.response = {
            **self.response,
            "status": "incomplete" if cut else "completed",
            "completed_at": None if cut else now,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": list(self._output),
            "usage": _usage(finish.usage),
        }
        if finish.timings is not None:
            self.response["timings"] = dict(finish.timings)
        return events

    def _state(self, name: str) -> StreamEvent:
        return self._event(name, response=self.response)

    def _event(self, name: str, **fields: Any) -> StreamEvent:
        number, self._count = self._count, self._count + 1
        kind = name if name == "error" else f"response.{name}"
        return cast(StreamEvent, {"type": kind, "sequence_number": number, **fields})


def _error_code(error: CallwrightError) -> Any:
    """The closest of the few codes that a response's error may have."""
    if isinstance(error, InvalidRequest):
        return "invalid_prompt"
    return "rate_limit_exceeded" if error.status == 429 else "server_error"


def _usage(usage: Usage) -> ResponseUsage:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
