"""The command as a user runs it: a process of its own, its two outputs, its end."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
START_S = 300.0  # to load a model on a slow and busy machine
END_S = 60.0


def environment(**changes: str) -> dict[str, str]:
    """The user's, without settings that would change what is tested."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CALLWRIGHT_") or name == "CALLWRIGHT_MODELS_DIR"
    }
    return {**kept, "PYTHONUNBUFFERED": "1", **changes}


def command(*args: str, python: str = sys.executable) -> list[str]:
    return [python, "-m", "server", *args]


def run(*args: str, timeout_s: float = START_S, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run `callwright ARGS` to its end."""
    return subprocess.run(
        command(*args),
        cwd=ROOT,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


@dataclass
class Running:
    """A server process. `banner` is what it printed on stdout when it was ready."""

    process: subprocess.Popen[str]
    stderr_path: Path
    lines: queue.Queue[str | None] = field(default_factory=queue.Queue)
    banner: str = ""

    @property
    def url(self) -> str:
        found = re.search(r"is ready at (http://\S+)/v1 ", self.banner)
        assert found, f"no address in {self.banner!r}; stderr: {self.stderr}"
        return found[1]

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text("utf-8")

    def wait_until_ready(self) -> None:
        """Read the banner: up to its third line of dashes."""
        deadline = time.monotonic() + START_S
        while self.banner.count("\n-----") < 3:
            line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, f"it ended: {self.stderr}"
            self.banner += line

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(END_S)


@contextmanager
def started(*args: str, python: str = sys.executable, **changes: str) -> Iterator[Running]:
    """`callwright ARGS` under way; killed at the end if it still runs."""
    with tempfile.TemporaryDirectory() as folder:
        stderr_path = Path(folder) / "stderr"
        with stderr_path.open("w") as stderr:
            process = subprocess.Popen(
                command(*args, python=python),
                cwd=ROOT,
                env=environment(**changes),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        running = Running(process, stderr_path)
        reader = threading.Thread(target=_read, args=(running,), daemon=True)
        reader.start()
        try:
            yield running
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(END_S)
            reader.join(END_S)
            assert process.stdout
            process.stdout.close()


def _read(running: Running) -> None:
    assert running.process.stdout
    for line in running.process.stdout:
        running.lines.put(line)
    running.lines.put(None)
