"""What a user at a terminal sees when something is wrong, and when the command is told to stop."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from models.catalog import load_catalog
from server import config
from tests.e2e.process import Running, run, started

pytestmark = [pytest.mark.weights, pytest.mark.timeout(3600)]

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one or two lines on stderr of a command that could not go on."""
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 2, done.stderr
    assert lines[0].startswith("callwright: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def model_file(name: str) -> Path:
    entry = load_catalog().find(name)
    assert entry is not None
    return entry.path(config.load().models_dir)


# Errors. The model is there in every case, so that what is told is what is wrong.


def test_a_port_in_use(small_model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = complaint(run("serve", "--model", small_model, "--port", port))
    assert port in told
    assert "--port" in told


def test_a_model_that_nobody_knows() -> None:
    told = complaint(run("serve", "--model", "smollm2-135m-instruckt", "--port", "0"))
    assert "smollm2-135m-instruct" in told.replace("instruckt", "")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "nowhere.gguf" in complaint(run("serve", "--model", str(tmp_path / "nowhere.gguf")))


def test_a_file_that_was_cut(small_model: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with model_file(small_model).open("rb") as whole:
        cut.write_bytes(whole.read(20_000_000))
    assert "cut.gguf" in complaint(run("serve", "--model", str(cut), "--port", "0"))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + b"\0" * 5000, b"GGUF" * 5000])
def test_a_file_that_is_no_gguf(content: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(content)
    assert "other.gguf" in complaint(run("serve", "--model", str(other), "--port", "0"))


def test_a_context_that_memory_cannot_hold(small_model: str) -> None:
    told = complaint(
        run("serve", "--model", small_model, "--port", "0", "--context-length", "100000000")
    )
    assert "memory" in told
    assert "--context-length" in told


def test_a_model_that_is_not_there_in_offline_mode(tmp_path: Path) -> None:
    told = complaint(
        run("serve", "--offline", "--models-dir", str(tmp_path / "models"), "--port", "0")
    )
    assert "offline" in told
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_sources_that_cannot_be_reached(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"  # the port "discard": nobody listens
    done = run(
        "serve",
        "--models-dir",
        str(tmp_path / "models"),
        HF_ENDPOINT=nowhere,
        PIP_INDEX_URL=nowhere,
        PIP_EXTRA_INDEX_URL="",
        PIP_RETRIES="0",
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "callwright: could not fetch qwen2.5-coder-0.5b-instruct" in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = str(tmp_path / "file" / "models")
    told = complaint(run("serve", "--models-dir", folder, "--port", "0"))
    assert "--models-dir" in told


def test_an_address_that_others_reach_needs_a_key(small_model: str) -> None:
    told = complaint(run("serve", "--model", small_model, "--port", "0", "--host", "0.0.0.0"))
    assert "--api-key" in told


def test_a_host_that_is_not_ours(small_model: str) -> None:
    told = complaint(
        run("serve", "--model", small_model, "--host", "192.0.2.1", "--allow-open-network")
    )
    assert "192.0.2.1" in told


def test_a_bad_setting_in_a_variable(small_model: str) -> None:
    told = complaint(run("serve", "--model", small_model, CALLWRIGHT_PORT="http"))
    assert "CALLWRIGHT_PORT" in told


@pytest.mark.parametrize("template", ["nobody", "nowhere.jinja"])
def test_a_template_that_is_not_there(template: str, small_model: str) -> None:
    told = complaint(
        run("serve", "--model", small_model, "--port", "0", "--prompt-template", template,
            "--log-level", "error")
    )  # fmt: skip
    assert template in told


# The end


@SIGNALS
def test_a_serving_command_ends_cleanly(small_model: str, number: signal.Signals) -> None:
    with started("serve", "--model", small_model, "--port", "0") as running:
        running.wait_until_ready()
        assert httpx.get(f"{running.url}/health").status_code == 200
        status = running.end(number)
        check_end(running, status, (0,))
        assert running.stderr.endswith("stopped\n")


@SIGNALS
def test_a_command_that_is_answering_ends_cleanly(small_model: str, number: signal.Signals) -> None:
    body = {
        "model": small_model,
        "messages": [{"role": "user", "content": "Count from 1 to 100000."}],
        "stream": True,
        "logit_bias": {"0": -100, "2": -100},
    }
    flags = ("--port", "0", "--shutdown-grace-s", "1")
    with started("serve", "--model", small_model, *flags) as running:
        running.wait_until_ready()
        with httpx.stream(
            "POST", f"{running.url}/v1/chat/completions", json=body, timeout=300
        ) as answer:
            lines = answer.iter_lines()
            while '"content"' not in next(lines):
                pass
            status = running.end(number)
            rest = [line for line in lines if line]
        check_end(running, status, (0,))
    assert rest[-2] == "event: error"
    assert "shutting_down" in rest[-1]


def test_told_twice_it_ends_at_once(small_model: str) -> None:
    with started(
        "serve", "--model", small_model, "--port", "0", "--shutdown-grace-s", "3000"
    ) as running:
        running.wait_until_ready()
        with socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2]))) as half:
            half.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 9\r\nHost: x\r\n\r\n"
            )
            time.sleep(0.5)
            running.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            status = running.end(signal.SIGINT)
        check_end(running, status, (0, 130))


@SIGNALS
@pytest.mark.parametrize("after_s", [0.5, 1.5, 2.5])
def test_a_command_that_is_still_loading_ends_cleanly(
    small_model: str, number: signal.Signals, after_s: float
) -> None:
    """Wherever it is by then: importing, reading the file, inside llama.cpp, or serving."""
    with started("serve", "--model", small_model, "--port", "0") as running:
        time.sleep(after_s)
        status = running.end(number)
        check_end(running, status, (0, 130 if number == signal.SIGINT else 143))


def check_end(running: Running, status: int, statuses: tuple[int, ...]) -> None:
    assert "Traceback" not in running.stderr, running.stderr
    assert "Exception ignored" not in running.stderr, running.stderr
    # As a shell counts: a signal that comes before the command can do anything of its own, too.
    assert (128 - status if status < 0 else status) in statuses, running.stderr
