from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from server.__main__ import build_parser
from server.bench import peers
from server.bench.peers import (
    Launch,
    Rig,
    find_peers,
    free_port,
    llama_cpp_python,
    llama_server,
    ours,
    program_version,
    running,
)
from server.errors import SetupError

RIG = Rig("small", Path("/models"), Path("/models/small.gguf"), threads=2, context_length=4096)

READY = """
import http.server, signal, sys
{before}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ok = self.headers.get("authorization") == {key!r}
        self.send_response(200 if ok and self.path == "/health" else 503)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def launch(code: str) -> Launch:
    port = free_port()
    return Launch("peer", (sys.executable, "-c", code, str(port)), "tools", port)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_runs_as_long_as_it_is_needed() -> None:
    with running(launch(READY.format(before="", key="Bearer k")), key="k") as server:
        pid = server.pid
        assert httpx.get(f"{server.launch.url}/health", trust_env=False).status_code == 503
        peak = server.peak_memory_bytes()
        assert peak is None or peak > 1 << 20
    assert not is_there(pid)
    assert server.peak_memory_bytes() is None


def test_it_ends_also_after_an_error_and_when_it_does_not_want_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "END_DEADLINE_S", 0.2)
    deaf = READY.format(before="signal.signal(signal.SIGTERM, signal.SIG_IGN)", key=None)
    with pytest.raises(RuntimeError), running(launch(deaf)) as server:
        raise RuntimeError
    assert not is_there(server.pid)


def test_a_server_that_ends_at_once_has_last_words() -> None:
    code = "import sys; print('no such file', file=sys.stderr); sys.exit(3)"
    with (
        pytest.raises(SetupError, match="peer ended with status 3") as caught,
        running(launch(code)),
    ):
        pass
    assert caught.value.hint == "no such file"


def test_a_server_that_never_gets_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "START_DEADLINE_S", 0.5)
    with (
        pytest.raises(SetupError, match="peer is not ready"),
        running(launch("import time; time.sleep(60)")),
    ):
        pass


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    program = tmp_path / "server"
    with (
        pytest.raises(SetupError, match="peer cannot be started: No such file"),
        running(Launch("peer", (str(program),), "tools", 1)),
    ):
        pass


def test_our_own_command_line_is_one_that_we_understand() -> None:
    started = ours(RIG, 4711)
    words = started.command
    assert words[1:3] == ("-m", "server")
    args = build_parser().parse_args(words[3:])
    assert (args.command, args.port, args.threads, args.model) == ("serve", "4711", "2", "small")
    assert started.folder is not None
    assert (started.folder / "server" / "__main__.py").is_file()


def test_the_command_lines_of_peers(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\necho noise >&2\necho 'version: 7 (abc)' >&2\n")
    program.chmod(0o755)
    line = " ".join(llama_server(str(program), RIG, 4711).command)
    parts = ["-m /models/small.gguf", "-t 2", "-c 4096", "-np 8", "--jinja", "--alias small"]
    for part in (*parts, "--port 4711", "--host 127.0.0.1"):
        assert part in line
    assert llama_server(str(program), RIG, 1).version == "7 (abc)"
    assert program_version(str(tmp_path / "none")) is None

    line = " ".join(llama_cpp_python(RIG, 4711).command)
    assert "-m llama_cpp.server --model /models/small.gguf --model_alias small" in line
    assert "--interrupt_requests false" in line


def test_what_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(peers, "_LLAMA_CPP_SERVER_NEEDS", ("no_such_module",))
    assert find_peers(None) == []
    with pytest.raises(SetupError, match="/none is no program"):
        find_peers("/none")

    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(peers, "_LLAMA_CPP_SERVER_NEEDS", ("json",))
    for given in (None, str(program)):
        one, other = find_peers(given)
        assert one(RIG, 1).command[0] == str(program)
        assert other is llama_cpp_python


def test_a_free_port_is_free() -> None:
    port = free_port()
    ended = subprocess.run(
        [sys.executable, "-c", f"import socket; socket.create_server(('127.0.0.1', {port}))"]
    )
    assert ended.returncode == 0
