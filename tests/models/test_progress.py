from __future__ import annotations

import io

import pytest
from rich.console import Console

from models.progress import BarProgress, LineProgress, human_bytes, progress_on


def test_lines_come_seldom_and_say_how_long() -> None:
    now = 0.0
    lines: list[str] = []
    progress = LineProgress(lines.append, clock=lambda: now)
    progress.start("m.gguf", 100_000_000, 10_000_000)
    for second in range(1, 46):
        now = float(second)
        progress.update(10_000_000 + second * 2_000_000)
    progress.stop()
    progress.stop()
    assert lines == [
        "m.gguf: 40%, 2 MB/s, 30 s left",
        "m.gguf: 70%, 2 MB/s, 15 s left",
        "m.gguf: 100%, 2 MB/s, 0 s left",
        "m.gguf: 100 MB in 45 s",
    ]


def test_short_and_unfinished_tasks_leave_no_line() -> None:
    now = 0.0
    lines: list[str] = []
    progress = LineProgress(lines.append, clock=lambda: now)
    progress.start("short", 10)
    progress.update(10)
    progress.stop()
    progress.start("cut", 10)
    now = 9.0
    progress.update(5)
    progress.stop()
    assert lines == []


def test_a_stalled_task_has_no_time_left() -> None:
    now = 0.0
    lines: list[str] = []
    progress = LineProgress(lines.append, clock=lambda: now)
    progress.start("m", 10)
    now = 20.0
    progress.update(0, "m (2 of 3)")
    assert lines == ["m (2 of 3): 0%, 0 B/s"]


def test_a_terminal_gets_a_bar_and_a_file_does_not() -> None:
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=100)
    progress = progress_on(terminal)
    assert isinstance(progress, BarProgress)
    progress.start("m.gguf", 1000, 0)
    progress.update(1000, "m.gguf (2 of 2)")
    progress.say("a line [with] brackets")
    progress.stop()
    assert "m.gguf (2 of 2)" in out.getvalue()
    assert "1.0/1.0 kB" in out.getvalue()
    assert "a line [with] brackets" in out.getvalue()
    assert isinstance(progress_on(Console(file=io.StringIO())), LineProgress)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (491400064, "491 MB"), (1117320768, "1.1 GB")],
)
def test_bytes_for_people(count: int, shown: str) -> None:
    assert human_bytes(count) == shown
