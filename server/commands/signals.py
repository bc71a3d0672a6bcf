"""Ctrl-C and SIGTERM: both end a command at a place where it can be ended."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(SystemExit):
    """SIGTERM came: the process ends with the status that this signal usually has."""


@contextlib.contextmanager
def sigterm_unwinds() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, with everything on the way cleaned up."""

    def leave(number: int, _: object) -> None:
        raise Terminated(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Let signals wait until the block is done; a second one does not wait. Gives whether one came.

    Native code calls back into Python, for its log lines for one, and an exception that a signal
    raises there is printed and forgotten: the command would go on.
    """
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def remember(number: int, _: object) -> None:
        came.append(number)
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, remember)
    try:
        yield lambda: bool(came)
    finally:
        restore()
    for caught in came:
        signal.raise_signal(caught)
