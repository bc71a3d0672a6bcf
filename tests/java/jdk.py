"""The JDK's own HTTP client, where there is a JDK."""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent / "Jdk.java"
END_S = 60.0


def java_with_compiler() -> str | None:
    """Its path; None where there is no Java or one that cannot run a source file."""
    java = shutil.which("java")
    if java is None:
        return None
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True)
    return java if "jdk.compiler@" in modules.stdout else None


@dataclass(frozen=True)
class Jdk:
    """A running client, which uses its connection again where it can."""

    process: subprocess.Popen[str]

    def post(self, body: str) -> tuple[int, str]:
        """Status and body of the answer. `body` is sent without its line ends."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(body.replace("\n", " ") + "\n")
        self.process.stdin.flush()
        status, _, encoded = self.process.stdout.readline().partition(" ")
        assert status, "the client has ended; what it said is on stderr"
        return int(status), base64.b64decode(encoded).decode()


@contextlib.contextmanager
def jdk(java: str, url: str) -> Iterator[Jdk]:
    process = subprocess.Popen(
        [java, str(SOURCE), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield Jdk(process)
            assert process.stdin
            process.stdin.close()
            assert process.wait(END_S) == 0
        finally:
            process.kill()
