"""What the commands that measure have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from server.bench.session import Watcher


def positive(text: str) -> int:
    """The type of an argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def whole(text: str) -> int:
    """The type of an argument that counts what may be none."""
    return 0 if text == "0" else positive(text)


@contextmanager
def progress(dialogues: int) -> Iterator[Watcher]:
    """A bar on stderr with the level that runs and the time left; off a terminal only the level."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    from server.bench.session import Watcher

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=dialogues)

        def begin(text: str) -> None:
            bar.update(task, description=text)
            if not console.is_terminal:
                console.print(text)

        yield Watcher(begin=begin, tick=lambda: bar.advance(task))
