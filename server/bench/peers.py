"""Servers that the benchmark starts itself, on loopback, and ends by their own process.

Each gets the same file, threads and tokens of context, and the settings that are best for it.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

import server
from server.bench.bodies import Mode
from server.commands.remote import bearer
from server.errors import SetupError

START_DEADLINE_S = 600.0
END_DEADLINE_S = 20.0

_LLAMA_CPP_SERVER_NEEDS = ("sse_starlette", "starlette_context", "yaml")


@dataclass(frozen=True)
class Rig:
    """What every server is given. `model` is the name or path for ours, `path` its file.

    `context_length` is in tokens, for all `sequences` together. Without `reuses_prefixes` ours
    reads each prompt from its first token on.
    """

    model: str
    models_dir: Path
    path: Path
    threads: int
    context_length: int
    sequences: int = 8
    reuses_prefixes: bool = True


@dataclass(frozen=True)
class Launch:
    """How a server is started. `ready_path` answers 200 when the model is loaded."""

    name: str
    command: tuple[str, ...]
    mode: Mode
    port: int
    ready_path: str = "/health"
    folder: Path | None = None
    version: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Running:
    """A server that answers, as long as the context lasts in which it was started."""

    launch: Launch
    pid: int

    def peak_memory_bytes(self) -> int | None:
        """The most that it had resident so far; None where Linux does not tell."""
        with suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{self.pid}/status").read_text("utf-8", "replace")
            return int(status.split("VmHWM:")[1].split()[0]) * 1024
        return None


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def ours(rig: Rig, port: int) -> Launch:
    """This server, from the files that this process runs from."""
    flags: dict[str, object] = {
        "--model": rig.model, "--models-dir": rig.models_dir, "--host": "127.0.0.1",
        "--port": port, "--threads": rig.threads, "--context-length": rig.context_length,
        "--max-sequences": rig.sequences, "--log-level": "warning",
    }  # fmt: skip
    if not rig.reuses_prefixes:
        flags["--cached-sequences"] = 0
    return Launch(
        name="callwright",
        command=(sys.executable, "-m", "server", "serve", "--offline", *_words(flags)),
        mode="tools",
        port=port,
        folder=Path(server.__file__).parents[1],
    )


def llama_server(program: str, rig: Rig, port: int) -> Launch:
    """llama.cpp's server, its context divided evenly among its slots."""
    flags = {
        "-m": rig.path, "-t": rig.threads, "-tb": rig.threads, "-c": rig.context_length,
        "-np": rig.sequences, "--alias": rig.path.stem, "--host": "127.0.0.1", "--port": port,
    }  # fmt: skip
    return Launch(
        name="llama-server",
        command=(program, "--jinja", "--metrics", *_words(flags)),
        mode="response_format",
        port=port,
        version=program_version(program),
    )


def llama_cpp_python(rig: Rig, port: int) -> Launch:
    """llama-cpp-python's server. It runs one request at a time.

    By default a new request would end the one that runs, and logits of all tokens would be kept.
    """
    flags = {
        "--model": rig.path, "--model_alias": rig.path.stem,
        "--n_threads": rig.threads, "--n_threads_batch": rig.threads, "--n_ctx": rig.context_length,
        "--host": "127.0.0.1", "--port": port,
        "--interrupt_requests": "false", "--logits_all": "false", "--verbose": "false",
    }  # fmt: skip
    return Launch(
        name="llama-cpp-python",
        command=(sys.executable, "-m", "llama_cpp.server", *_words(flags)),
        mode="json_object",
        port=port,
        ready_path="/v1/models",
    )


def _words(flags: dict[str, object]) -> list[str]:
    return [str(word) for pair in flags.items() for word in pair]


def find_peers(program: str | None) -> list[Callable[[Rig, int], Launch]]:
    """The peers that are on this machine. `program` is llama-server's path, if given.

    Raises SetupError if there is nothing at that path.
    """
    found: list[Callable[[Rig, int], Launch]] = []
    path = shutil.which(program or "llama-server")
    if path is not None:
        found.append(lambda rig, port: llama_server(path, rig, port))
    elif program is not None:
        raise SetupError(f"{program} is no program", hint="Give the path of a built llama-server.")
    if all(importlib.util.find_spec(name) for name in _LLAMA_CPP_SERVER_NEEDS):
        found.append(llama_cpp_python)
    return found


def program_version(program: str) -> str | None:
    """What it says of its version to `--version`."""
    with suppress(OSError, subprocess.TimeoutExpired):
        ended = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30
        )
        lines = (ended.stdout + ended.stderr).decode("utf-8", "replace").splitlines()
        prefix = "version: "
        return next((one.removeprefix(prefix) for one in lines if one.startswith(prefix)), None)
    return None


@contextmanager
def running(launch: Launch, key: str | None = None) -> Iterator[Running]:
    """Start a server, wait until it is ready, and end it. Raises SetupError with its last words.

    `key` is what it asks for, if it does.
    """
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                launch.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=launch.folder, start_new_session=True,
            )  # fmt: skip
        except OSError as exc:
            raise SetupError(f"{launch.name} cannot be started: {exc.strerror}") from None
        try:
            _wait_until_ready(launch, process, log, key)
            yield Running(launch, process.pid)
        finally:
            _end(process)


def _wait_until_ready(
    launch: Launch, process: subprocess.Popen[bytes], log: IO[bytes], key: str | None
) -> None:
    headers = bearer(key)
    deadline = time.monotonic() + START_DEADLINE_S
    with httpx.Client(trust_env=False, timeout=5, headers=headers) as http:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise SetupError(
                    f"{launch.name} ended with status {process.returncode}", hint=_last_words(log)
                )
            with suppress(httpx.HTTPError):
                if http.get(launch.url + launch.ready_path).status_code == 200:
                    return
            time.sleep(0.2)
    raise SetupError(f"{launch.name} is not ready after {START_DEADLINE_S:.0f} s")


def _last_words(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return " / ".join(lines[-3:])[:500]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; make it end if it does not."""
    process.terminate()
    try:
        process.wait(END_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
