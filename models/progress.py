"""How slow work shows itself: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichProgress

SECONDS_BETWEEN_LINES = 15.0
SHORT_S = 2.0


class Progress(Protocol):
    """Where work reports to. One task at a time; `start` ends the one before."""

    def say(self, line: str) -> None:
        """Show one line."""

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Begin a task of `total` bytes, of which `done` were there before."""

    def update(self, done: int, label: str | None = None) -> None:
        """`done` bytes are there now; also rename the task if `label` is given."""

    def stop(self) -> None:
        """End the task, finished or not."""


def progress_on(console: Console) -> Progress:
    """The form that suits the console."""
    return BarProgress(console) if console.is_terminal else LineProgress(_print_to(console))


def _print_to(console: Console) -> Callable[[str], None]:
    def show(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    return show


class BarProgress:
    """A live bar with bytes, speed and time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._show = _print_to(console)
        self._bar: RichProgress | None = None

    def say(self, line: str) -> None:
        self._show(line)

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.stop()
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._bar.add_task(label, total=total, completed=done)
        self._bar.start()

    def update(self, done: int, label: str | None = None) -> None:
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=done)
            if label is not None:
                self._bar.update(task, description=label)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class LineProgress:
    """A line every SECONDS_BETWEEN_LINES, and one at the end of what took longer than SHORT_S."""

    def __init__(
        self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._clock = clock
        self._label: str | None = None

    def say(self, line: str) -> None:
        self._show(line)

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.stop()
        self._label, self._total, self._done, self._first = label, total, done, done
        self._began = self._shown = self._clock()

    def update(self, done: int, label: str | None = None) -> None:
        self._done = done
        self._label = label or self._label
        now = self._clock()
        if now - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = now
            speed = (done - self._first) / (now - self._began)
            left = f", {(self._total - done) / speed:.0f} s left" if speed > 0 else ""
            share = done / max(self._total, 1)
            self._show(f"{self._label}: {share:.0%}, {human_bytes(int(speed))}/s{left}")

    def stop(self) -> None:
        if self._label is not None and self._done >= self._total:
            took = self._clock() - self._began
            if took >= SHORT_S:
                self._show(f"{self._label}: {human_bytes(self._total)} in {took:.0f} s")
        self._label = None


def human_bytes(count: int) -> str:
    """`491 MB`, `1.1 GB`: decimal units, as disks and downloads are sold."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
