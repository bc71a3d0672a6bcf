"""Text completions as chunks of a stream, or folded into one plain answer. No I/O.

Both are made from `Indexed` events: those of all choices, as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from server import sse
from server.events import Event, Finish, Text, Usage
from server.wire.completions import TextChoice, TextCompletion, text_choice
from server.wire.replies import to_json, token_usage

Indexed = tuple[int, Event]


@dataclass(frozen=True)
class Envelope:
    """What the answer and every chunk of it have in common."""

    id: str
    created: int
    model: str

    def around(self, *choices: TextChoice) -> TextCompletion:
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
        }


@dataclass
class TextWriter:
    """Writes the stream of one request: `opening`, then each event, then `closing`.

    `echoes` has what each choice begins with, "" for nothing; `n` choices share a prompt.
    """

    envelope: Envelope
    echoes: Sequence[str]
    n: int
    include_usage: bool
    _ends: dict[int, Finish] = field(default_factory=dict)

    def opening(self) -> bytes:
        chunks = (text_choice(i, echo, None) for i, echo in enumerate(self.echoes) if echo)
        return b"".join(self._chunk(choice) for choice in chunks)

    def write(self, index: int, event: Event) -> bytes:
        if isinstance(event, Text) and event.text:
            return self._chunk(text_choice(index, event.text, None))
        if isinstance(event, Finish):
            self._ends[index] = event
            return self._chunk(text_choice(index, "", event.reason))
        return b""

    def closing(self) -> bytes:
        if not self.include_usage:
            return sse.DONE
        counts = self.envelope.around()
        counts["usage"] = token_usage(total(self._ends, self.n))
        return sse.event(to_json(counts)) + sse.DONE

    def _chunk(self, choice: TextChoice) -> bytes:
        return sse.event(to_json(self.envelope.around(choice)))


def fold_text(
    events: Iterable[Indexed], echoes: Sequence[str], n: int, envelope: Envelope
) -> TextCompletion:
    """The plain answer; the events of every choice must end in Finish. As for TextWriter."""
    texts = [[echo] for echo in echoes]
    ends: dict[int, Finish] = {}
    for index, event in events:
        if isinstance(event, Text):
            texts[index].append(event.text)
        elif isinstance(event, Finish):
            ends[index] = event
    reply = envelope.around(
        *(text_choice(i, "".join(pieces), ends[i].reason) for i, pieces in enumerate(texts))
    )
    reply["usage"] = token_usage(total(ends, n))
    return reply


def total(ends: Mapping[int, Finish], n: int) -> Usage:
    """Of all choices by index; the prompt that `n` of them share counts once."""
    firsts = [end.usage for index, end in ends.items() if index % n == 0]
    return Usage(
        prompt_tokens=sum(usage.prompt_tokens for usage in firsts),
        completion_tokens=sum(end.usage.completion_tokens for end in ends.values()),
        cached_tokens=sum(usage.cached_tokens for usage in firsts),
    )
