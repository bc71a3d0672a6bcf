"""From the bytes of the model to events: text, calls with their arguments, the end.

The parser is made from the same surfaces as the grammar, so that it knows exactly what the grammar
lets through. Bytes until the edge: text is decoded here, once, and a character is never split.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from server.arguments import AsWritten, View
from server.events import CallArguments, CallBegins, CallEnds, Event, FinishReason, Text
from server.json_text import MAX_DIGITS
from server.openings import Found, OpeningFinder
from server.payloads.choice import Parameters, new_reader
from server.payloads.reading import Reader
from server.surface import Surface


class OutputParser:
    """Parses one answer. `feed` bytes as they come, then `end`.

    `ways` are the surfaces in which calls of the tools `names` may be written, none if there can be
    no call. What looks like a call of another tool is text: no constraint held it. `stops` end
    text, never a call. `token_markers` are texts of special tokens. `calls_only`: there is no text,
    whatever stands outside calls. `views` make that of a client on the arguments, by tool;
    `parameters` say of each tool what its parameters may be. Text begins with `text_opening`, which
    is no part of it, and no call follows it then.
    """

    def __init__(
        self,
        ways: Sequence[Surface],
        *,
        names: Collection[str],
        new_id: Callable[[], str],
        stops: Sequence[str] = (),
        token_markers: Collection[str] = (),
        calls_only: bool = False,
        views: Mapping[str, Callable[[], View]] | None = None,
        parameters: Mapping[str, Parameters] | None = None,
        text_opening: str = "",
    ) -> None:
        numbered = list(enumerate(ways))
        words = [b"(?P<words>)" + re.escape(text_opening.encode())] if text_opening else []
        self._words = not words  # whether text has begun, or needs nothing to begin
        by_token = [way for way in numbered if way[1].opens_with(token_markers)]
        by_text = [way for way in numbered if way not in by_token]
        self._finder = OpeningFinder(
            [_head(*way, names) for way in by_text if not way[1].bare],
            anywhere=words + [_head(*way, names) for way in by_token],
            first=[_head(*way, names) for way in by_text if way[1].bare],
        )
        self._markers = [way.marker.encode() for way in ways if way.marker]
        self._calls_only = calls_only
        self._heads = [_head(*way, names, first=False) for way in numbered]
        self._ways = ways
        self._parameters = parameters or {}
        self._new_id = new_id
        self._views = views or {}
        self._text = _TextGate(stops)
        self._call: _Call | None = None
        self.calls = 0

    @property
    def stopped(self) -> bool:
        """A stop text was found: nothing more is to come."""
        return self._text.stopped

    @property
    def digits_left(self) -> int:
        """How many digits may follow in a number of open arguments."""
        return self._call.digits_left if self._call else MAX_DIGITS

    def feed(self, data: bytes) -> list[Event]:
        """The events that are certain with `data`."""
        events: list[Event] = []
        while data and not self.stopped:
            data = self._arguments(data, events) if self._call else self._outside(data, events)
        return events

    def end(self) -> list[Event]:
        """What was held back, after the last byte. A call cut in its opening is not shown."""
        if self._call:
            return list(self._call.cut())
        held = self._finder.held
        if self.stopped or self._outside_text or held.lstrip().startswith(tuple(self._markers)):
            return []
        return list(self._text.close(held))

    @property
    def _outside_text(self) -> bool:
        return self._calls_only or self.calls > 0 or not self._words

    def finish_reason(self, end: FinishReason) -> FinishReason:
        """How the answer ended for its client, `end` being how the generation did."""
        if end == "length" or not self.calls:
            return end
        return "tool_calls"

    def _outside(self, data: bytes, events: list[Event]) -> bytes:
        """Read text, or what stands between two calls."""
        found = self._finder.feed(data)
        if not isinstance(found, Found):
            if not self._outside_text:
                events += self._text.feed(found)
            return b""
        if "words" in found.match.groupdict() and found.match["words"] is not None:
            self._words, self._finder = True, OpeningFinder(())
            return found.rest
        if not self._outside_text:
            events += self._text.feed(found.before)
            if self.stopped:
                return b""
            self._text.call_follows()
        name = found.match["name"].decode()
        view = self._views.get(name, AsWritten)()
        way = self._ways[_number(found)]
        reader = new_reader(way.args, self._parameters.get(name, {}))
        self._call = _Call(CallBegins(self.calls, self._new_id(), name, view.custom), view, reader)
        self.calls += 1
        # From here on only calls can follow, and what joins them is no text.
        self._finder = OpeningFinder((), anywhere=self._heads)
        return found.rest

    def _arguments(self, data: bytes, events: list[Event]) -> bytes:
        assert self._call is not None
        events += self._call.feed(data)
        if self._call.rest is None:
            return b""
        rest, self._call = self._call.rest, None
        return rest


def _head(number: int, way: Surface, names: Collection[str], *, first: bool = True) -> bytes:
    """A pattern for a call up to its arguments, with a group that tells the way by its number."""
    return b"(?P<way%d>)" % number + way.head(names, first=first)


def _number(found: Found) -> int:
    groups = found.match.groupdict()
    return next(
        int(key.removeprefix("way"))
        for key, value in groups.items()
        if key.startswith("way") and value is not None
    )


class _Call:
    """The arguments of one call. `rest` is what follows their end, None before."""

    def __init__(self, begins: CallBegins, view: View, reader: Reader) -> None:
        self._begins: CallBegins | None = begins
        self._index = begins.index
        self._view = view
        self._reader = reader

    @property
    def rest(self) -> bytes | None:
        return self._reader.rest

    @property
    def digits_left(self) -> int:
        return self._reader.digits_left

    def feed(self, data: bytes) -> Iterator[Event]:
        text = self._reader.feed(data)
        yield from self._show(self._view.feed(text, last=self.rest is not None))
        if self.rest is not None:
            yield from self._opening()
            yield CallEnds(self._index)

    def cut(self) -> Iterator[Event]:
        yield from self._show(self._view.cut())

    def _show(self, text: str) -> Iterator[Event]:
        if text:
            yield from self._opening()
            yield CallArguments(self._index, text)

    def _opening(self) -> Iterator[Event]:
        if self._begins:
            yield self._begins
            self._begins = None


class _TextGate:
    """Decodes text, ends it at a stop text, and holds back what may not belong to it.

    White space at the end is held: before a call it is no part of the text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped = False

    def feed(self, data: bytes) -> Iterator[Text]:
        text = self._held + self._decoder.decode(data)
        # The one that is complete first, so that pieces make no difference.
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            text = text[: min(found)[1]]
        else:
            keep = min(len(text.rstrip()), self._stop_may_begin(text))
            text, self._held = text[:keep], text[keep:]
        if text:
            yield Text(text)

    def close(self, data: bytes) -> Iterator[Text]:
        """The rest, at the end of the answer. A torn character at the very end is dropped."""
        yield from self.feed(data)
        if self._held:
            yield Text(self._held)
            self._held = ""

    def call_follows(self) -> None:
        self._held = ""

    def _stop_may_begin(self, text: str) -> int:
        """Where a stop text may begin that is not complete yet; the end if nowhere."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for start in range(max(0, len(text) - longest), len(text)):
            if any(stop.startswith(text[start:]) for stop in self._stops):
                return start
        return len(text)
