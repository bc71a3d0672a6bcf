"""The ways in which a model may write its calls, made from a format row: for grammar and parser.

A surface is one of them: the family's own (native) or a loose one that it is known to slip into. It
opens decisively, by a marker, or only together with the name of an offered tool: a Markdown fence
or a brace alone may be text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from prompts.payloads import PLACEHOLDER, Payload
from prompts.tool_format import Loose, ToolFormat

SPACE = r"[ \t\r\n]{0,24}"
IDS = {
    "none": r"[A-Za-z0-9_\-]{1,40}",
    "any": r"[A-Za-z0-9_\-]{1,40}",
    "alnum9": r"[A-Za-z0-9]{9}",
    "index": r"[0-9]{1,3}",
}


@dataclass(frozen=True)
class Surface:
    """`open`, calls joined by `sep`, `close`. `call` has the placeholders of the row.

    `literal`: markers are spelled as text even if they are vocabulary entries. `native`: the
    family's own way, in exactly one spelling; the others allow white space as JSON does up to the
    name of the tool. `args` is the notation of the arguments. `leads`: an answer that begins with
    the prefix and a letter is a call, whatever the name.
    """

    open: str
    call: str
    sep: str
    close: str
    ids: str
    literal: bool
    native: bool
    args: Payload
    leads: bool = False

    @property
    def prefix(self) -> str:
        """Everything up to the first placeholder."""
        return self.open + PLACEHOLDER.split(self.call)[0]

    @property
    def marker(self) -> str:
        """The text that alone opens a call; "" where the name of a tool must follow."""
        leading = self.prefix.split("{")[0].strip()
        return "" if leading == "[" or leading.startswith("```") else leading

    @property
    def bare(self) -> bool:
        """Whether a call begins with the tool's name and nothing before it.

        Text may say `get_weather(city)` anywhere; at its very beginning it is a call.
        """
        return not self.prefix

    def opens_with(self, tokens: Collection[str]) -> bool:
        """Whether the marker begins with one of these special tokens, as a token."""
        return not self.literal and any(self.marker.startswith(token) for token in tokens)

    def first_opening(self) -> bytes | None:
        """A pattern for text with which no answer in words begins, if this `leads`.

        `[name` begins a list of calls, whatever the name. A list of other values in JSON does not
        look like that.
        """
        return re.escape(self.prefix).encode() + rb"[A-Za-z_]" if self.leads else None

    def goes_on(self) -> tuple[bytes, ...]:
        """The texts that promise another call after the arguments of one; none in most ways.

        From each place in what is left of the call up to the first letter of what joins two.
        """
        if not self.sep.strip():
            return ()
        left = self.call.partition("«args»")[2].encode()
        return tuple(left[at:] + self.sep.strip()[:1].encode() for at in range(len(left) + 1))

    def opening(self, names: Sequence[str]) -> bytes:
        """A pattern for the text at which the constraint takes over."""
        if self.marker:
            return re.escape(self.marker).encode()
        head, _, after = self.call.partition("«name»")
        ways = (self._flexible(self.open), self._flexible(head), f"(?:{_any(names)})")
        return ("".join(ways) + re.escape(after[:1])).encode()

    def head(self, names: Collection[str], *, first: bool) -> bytes:
        """A pattern for a call of one of `names` up to its arguments; group `name` is the tool.

        `first`: with the opening of the turn before it.
        """
        before, _, _ = self.call.partition("«args»")
        text = self._flexible(self.open) if first else ""
        for position, part in enumerate(PLACEHOLDER.split(before)):
            if position % 2:
                text += self._placeholder(part, _any(names))
            elif position == 0:
                text += self._flexible(part)
            else:
                text += re.escape(part)
        if before.endswith("«name»"):  # it may be the beginning of another
            text += r"(?=[^A-Za-z0-9_.\-])"
        return text.encode()

    def _placeholder(self, name: str, tools: str) -> str:
        if name == "name":
            return f"(?P<name>{tools})"
        if name == "id":
            return rf"functions\.(?P<name>{tools}):[0-9]+" if self.ids == "kimi" else IDS[self.ids]
        return IDS["index"]

    def _flexible(self, text: str) -> str:
        return re.escape(text) if self.native else flexible(text)


def surfaces(row: ToolFormat) -> tuple[Surface, ...]:
    """All surfaces of a row, the native one first."""
    native = Surface(
        row.section[0],
        row.written or row.call,
        row.sep,
        row.section[1],
        row.ids,
        literal=False,
        native=True,
        args=row.args,
        leads=row.leads,
    )
    simple = native.marker or not native.call.startswith("{")
    ways = row.loose if simple else (Loose("", "", native.call), *row.loose)
    loose = (
        Surface(
            way.open,
            way.call,
            way.sep,
            way.close,
            row.ids,
            way.literal,
            native=False,
            args=way.args or row.args,
        )
        for way in ways
    )
    return (native, *loose)


def _any(names: Collection[str]) -> str:
    """Alternatives for a pattern, longest first: a name may be the beginning of another."""
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


def flexible(text: str) -> str:
    """A pattern for JSON-like text in which white space outside strings may vary.

    Also for what stands before it, where white space at the end may vary, as after a fence.
    """
    parts = re.split(r'("(?:[^"\\]|\\.)*"?)', text)
    return "".join(
        re.escape(part) if position % 2 else _flexible_structure(part)
        for position, part in enumerate(parts)
    )


def _flexible_structure(text: str) -> str:
    pattern = ""
    for part in re.split(r"(\s+|[{:,])", text):
        if part in ("{", ":", ","):
            pattern += SPACE + re.escape(part) + SPACE if part != "{" else r"\{" + SPACE
        elif part.strip():
            pattern += re.escape(part)
        elif part and not pattern.endswith(SPACE):
            pattern += SPACE
    return pattern
