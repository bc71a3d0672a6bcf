"""Server-sent events as bytes."""

from __future__ import annotations

from server.errors import CallwrightError
from server.wire.replies import error_reply, to_json

PING = b": ping\n\n"
"""A comment that keeps a silent stream alive."""

DONE = b"data: [DONE]\n\n"

# JSON may hold these raw, but many clients split a stream into lines with a rule that counts them
# as line ends.
_LINE_ENDS = tuple((end.encode(), b"\\u%04x" % ord(end)) for end in "\u0085\u2028\u2029")


def event(data: bytes) -> bytes:
    """One event with JSON as its data."""
    for end, escape in _LINE_ENDS:
        data = data.replace(end, escape)
    return b"data: " + data + b"\n\n"


def error_event(error: CallwrightError) -> bytes:
    """The end of a stream that failed; nothing follows, also not DONE.

    Clients differ in what they heed, the event's name or the key in its data: both are there.
    """
    return b"event: error\n" + event(to_json(error_reply(error)))
