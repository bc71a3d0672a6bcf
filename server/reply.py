"""Events of an answer as chunks of a stream, or folded into one plain answer. No I/O.

Both show the same: a call appears with the first piece of its arguments, empty pieces not at all;
one whose input is empty, when it ends. Arguments that were cut end before the white space at their
end. Log-probabilities are shown with what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from server import sse
from server.errors import CallwrightError
from server.events import (
    CallArguments,
    CallBegins,
    CallEnds,
    Event,
    Finish,
    Logprobs,
    Reasoning,
    ScoredToken,
    Text,
    Usage,
)
from server.wire.calls import further_delta, legacy_call, opening_delta, whole_call
from server.wire.logprobs import choice_logprobs
from server.wire.replies import (
    AssistantMessage,
    ChatCompletion,
    ChatCompletionChunk,
    Choice,
    ChunkChoice,
    Delta,
    WireFinishReason,
    to_json,
    token_usage,
)


@dataclass
class _Stream:
    """How far the stream of one choice is: the call that is not shown yet, white space of its
    arguments that is not, whether the last one was of a custom tool, and the log-probabilities that
    go with the next delta.
    """

    index: int
    unopened: CallBegins | None = None
    blank: CallArguments | None = None
    custom: bool = False
    scored: list[ScoredToken] = field(default_factory=list)
    finish: Finish | None = None


class ChunkWriter:
    """Writes the stream of an answer as server-sent events: `opening`, each event, then `done`.

    Every method returns what is to be sent next, complete events or nothing. With several `choices`
    each event belongs to the one at `index`. `legacy`: a call is a `function_call`.
    """

    def __init__(
        self,
        id: str,
        created: int,
        model: str,
        include_usage: bool,
        *,
        choices: int = 1,
        legacy: bool = False,
    ) -> None:
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._legacy = legacy
        self._streams = [_Stream(index) for index in range(choices)]

    def opening(self) -> bytes:
        """The role, to be sent before prefill so that clients see the answer has begun."""
        return b"".join(self._delta(one, {"role": "assistant"}) for one in self._streams)

    def write(self, event: Event, index: int = 0) -> bytes:
        stream = self._streams[index]
        match event:
            case Text(text):
                return self._delta(stream, {"content": text}) if text else b""
            case Reasoning(text):
                return self._delta(stream, {"reasoning_content": text}) if text else b""
            case Logprobs(tokens):
                stream.scored += tokens
                return b""
            case CallBegins():
                stream.unopened, stream.custom = event, event.custom
                return b""
            case CallArguments():
                return self._arguments(stream, event) if event.text else b""
            case CallEnds():
                return self._header(stream) + self._blank(stream)
            case Finish():
                return self._finish(stream, event)

    def error(self, error: CallwrightError) -> bytes:
        """The end of a stream that failed; nothing follows, also not `done`."""
        return sse.error_event(error)

    def done(self) -> bytes:
        return sse.DONE

    def _arguments(self, stream: _Stream, event: CallArguments) -> bytes:
        """Further arguments; before the first of a call its header, in the same bytes.

        A client that is cut off between the two would run the call with no arguments. White space
        waits for what follows it: LangChain4j 1.2 fails at a piece with nothing else.
        """
        text = (stream.blank.text if stream.blank else "") + event.text
        shown = text.rstrip()
        stream.blank = CallArguments(event.index, text[len(shown) :]) if shown != text else None
        return self._shown(stream, CallArguments(event.index, shown)) if shown else b""

    def _blank(self, stream: _Stream) -> bytes:
        """The white space that nothing followed."""
        event, stream.blank = stream.blank, None
        return self._shown(stream, event) if event else b""

    def _shown(self, stream: _Stream, event: CallArguments) -> bytes:
        more = further_delta(event, custom=stream.custom, legacy=self._legacy)
        return self._header(stream) + self._delta(stream, more)

    def _header(self, stream: _Stream) -> bytes:
        """What opens a call, unless that was sent."""
        begun, stream.unopened = stream.unopened, None
        return self._delta(stream, opening_delta(begun, legacy=self._legacy)) if begun else b""

    def _finish(self, stream: _Stream, event: Finish) -> bytes:
        """The end of a choice, and after the last one what was used, if that is asked for."""
        stream.finish = event
        blank = self._blank(stream) if stream.custom else b""
        reason = _reason(event, self._legacy)
        last = self._chunk([self._choice(stream, {}, reason)])
        if event.timings is not None:
            last["timings"] = dict(event.timings)
        ends = [one.finish for one in self._streams if one.finish is not None]
        if not self._include_usage or len(ends) < len(self._streams):
            return blank + sse.event(to_json(last))
        counts = self._chunk([])
        counts["usage"] = token_usage(_in_all([end.usage for end in ends]))
        return blank + sse.event(to_json(last)) + sse.event(to_json(counts))

    def _delta(self, stream: _Stream, delta: Delta) -> bytes:
        return sse.event(to_json(self._chunk([self._choice(stream, delta, None)])))

    def _choice(
        self, stream: _Stream, delta: Delta, reason: WireFinishReason | None
    ) -> ChunkChoice:
        choice: ChunkChoice = {"index": stream.index, "delta": delta, "finish_reason": reason}
        if stream.scored:
            choice["logprobs"] = choice_logprobs(stream.scored)
            stream.scored = []
        return choice

    def _chunk(self, choices: list[ChunkChoice]) -> ChatCompletionChunk:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }


def fold(
    *answers: Iterable[Event],
    id: str,
    created: int,
    model: str,
    legacy: bool = False,
    logprobs: bool = False,
) -> ChatCompletion:
    """The plain answer of complete sequences of events, one for each choice.

    `content` is null where there is no text, so always beside a forced call. `logprobs`: they were
    asked for, and are there if there is none. Raises ValueError if events do not end in Finish.
    """
    folded = [_Folded(legacy, logprobs).add_all(events) for events in answers]
    ends = [one.end for one in folded]
    reply: ChatCompletion = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [one.choice(index) for index, one in enumerate(folded)],
        "usage": token_usage(_in_all([end.usage for end in ends])),
    }
    timings = [end.timings for end in ends if end.timings is not None]
    if timings:
        reply["timings"] = {
            name: _of_all(name)([one[name] for one in timings]) for name in timings[0]
        }
    return reply


OF_THE_REQUEST = ("call_logprob", "call_margin", "fit_margin", "prompt_tokens", "tool_call_bias")


def _of_all(name: str) -> Callable[[list[float]], float]:
    """How a timing of several choices is put together: those run side by side."""
    return max if name.endswith("_s") or name in OF_THE_REQUEST else sum


@dataclass
class _Folded:
    """The events of one choice."""

    legacy: bool
    wants_logprobs: bool
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[tuple[CallBegins, list[str]]] = field(default_factory=list)
    scored: list[ScoredToken] = field(default_factory=list)
    begun: CallBegins | None = None
    ended: bool = True
    finish: Finish | None = None

    def add_all(self, events: Iterable[Event]) -> _Folded:
        for event in events:
            self._add(event)
        return self

    def _add(self, event: Event) -> None:
        match event:
            case Text(piece):
                self.text.append(piece)
            case Reasoning(piece):
                self.reasoning.append(piece)
            case Logprobs(tokens):
                self.scored += tokens
            case CallBegins():
                self.begun, self.ended = event, False
            case CallArguments(_, piece) if piece:
                self._open()
                self.calls[-1][1].append(piece)
            case CallEnds():
                self._open()
                self.ended = True
            case Finish():
                self.finish = event

    def _open(self) -> None:
        if self.begun is not None:
            self.calls.append((self.begun, []))
            self.begun = None

    @property
    def end(self) -> Finish:
        if self.finish is None:
            raise ValueError("the events of an answer end in Finish")
        return self.finish

    def choice(self, index: int) -> Choice:
        reason = _reason(self.end, self.legacy)
        choice: Choice = {"index": index, "message": self._message(), "finish_reason": reason}
        if self.wants_logprobs or self.scored:
            choice["logprobs"] = choice_logprobs(self.scored)
        return choice

    def _message(self) -> AssistantMessage:
        message: AssistantMessage = {"role": "assistant", "content": "".join(self.text) or None}
        if reasoning := "".join(self.reasoning):
            message["reasoning_content"] = reasoning
        calls = [(begun, "".join(pieces)) for begun, pieces in self.calls]
        is_cut = not self.ended and self.begun is None
        if is_cut and not calls[-1][0].custom:
            begun, written = calls.pop()
            calls += [(begun, cut)] if (cut := written.rstrip()) else []
        if calls and self.legacy:
            message["function_call"] = legacy_call(*calls[0])
        elif calls:
            message["tool_calls"] = [whole_call(*call) for call in calls]
        return message


def _reason(finish: Finish, legacy: bool) -> WireFinishReason:
    return "function_call" if legacy and finish.reason == "tool_calls" else finish.reason


def _in_all(usages: Sequence[Usage]) -> Usage:
    """Of all choices: the prompt, which they share, counts once."""
    return Usage(
        prompt_tokens=usages[0].prompt_tokens,
        completion_tokens=sum(one.completion_tokens for one in usages),
        cached_tokens=min(one.cached_tokens for one in usages),
        reasoning_tokens=sum(one.reasoning_tokens for one in usages),
    )
