from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from server.__main__ import main
from tests.commands.helpers import (
    CALL_STREAM,
    MODELS,
    WEATHER,
    Answer,
    call_delta,
    chat_server,
    delta,
    sse,
    text_stream,
)


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(WEATHER["function"]))
    return str(path)


def type_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), "utf-8"))


def test_one_question_with_every_option(tools: str, capfd: pytest.CaptureFixture[str]) -> None:
    with chat_server(Answer(CALL_STREAM)) as server:
        status = main([
            "chat", "Weather in", "Porto?", "--tools", tools, "--tool-choice", "get_weather",
            "--system", "Be short.", "--temperature", "0.5", "--max-tokens", "40",
            "--url", server.url, "--api-key", "secret", "--model", "mine",
        ])  # fmt: skip
    assert status == 0
    out, err = capfd.readouterr()
    assert out == '→ get_weather({"city": "Porto"})\n'
    assert err == ""
    [(_, headers, body)] = server.requests
    assert headers["authorization"] == "Bearer secret"
    assert body == {
        "model": "mine",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Weather in Porto?"},
        ],
        "tools": [{"type": "function", "function": WEATHER["function"]}],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "temperature": 0.5,
        "max_tokens": 40,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_the_message_as_json(tools: str, capfd: pytest.CaptureFixture[str]) -> None:
    with chat_server(MODELS, Answer(CALL_STREAM)) as server:
        assert main(["chat", "Weather?", "--tools", tools, "--json", "--url", server.url]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Porto"}'},
            }
        ],
    }


def test_the_question_may_come_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, b"Two\nlines, caf\xe9\n")
    with chat_server(MODELS, text_stream("Hi", "!")) as server:
        assert main(["chat", "--url", server.url]) == 0
    assert capfd.readouterr().out == "Hi!\n"
    assert server.requests[1][2]["messages"][0]["content"] == "Two\nlines, caf\ufffd"


def test_bytes_on_the_command_line_that_are_no_text() -> None:
    with chat_server(MODELS, text_stream("Hi")) as server:
        assert main(["chat", "caf\udce9", "--url", server.url]) == 0
    assert server.requests[1][2]["messages"][0]["content"] == "caf\ufffd"


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLWRIGHT_API_KEY", "one,two")
    with chat_server(MODELS, text_stream("Hi")) as server:
        main(["chat", "Hello", "--url", server.url])
    assert [headers["authorization"] for _, headers, _ in server.requests] == ["Bearer one"] * 2


def test_a_cut_answer_is_told_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with chat_server(MODELS, text_stream("Once upon", finish="length")) as server:
        assert main(["chat", "A story", "--url", server.url]) == 0
    assert capfd.readouterr() == ("Once upon\n", "the answer was cut at the token limit\n")


def test_a_failure_is_a_line_on_stderr_behind_what_came(capfd: pytest.CaptureFixture[str]) -> None:
    broken = Answer(sse(delta(content="Once"), {"error": {"message": "no memory"}}, end=b""))
    with chat_server(MODELS, broken) as server:
        assert main(["chat", "A story", "--url", server.url]) == 1
    assert capfd.readouterr() == ("Once\n", "callwright: no memory\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["x", "--tools", "/nowhere.json"], "cannot read the tools file /nowhere.json: No such"),
        (["x", "--tool-choice", "required"], "--tool-choice: tool_choice is required, but"),
        (["x", "--temperature", "9"], "--temperature (CALLWRIGHT_TEMPERATURE) is"),
        (["x", "--url", "ftp://host"], "--url 'ftp://host' is no address of a server"),
        ([" "], "the question is empty"),
        (["x", "--model", "qwen9"], "no model is called 'qwen9'"),
        (["x", "--model", "/nowhere.gguf"], "the model file /nowhere.gguf is not there"),
    ],
)
def test_mistakes_are_told_before_anything_is_loaded(
    arguments: list[str], complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", *arguments]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"callwright: {complaint}")
    assert len(err.splitlines()) <= 2


@pytest.mark.parametrize("value", ["0", "-1", "many", "²"])
def test_max_tokens_is_a_number_from_1(value: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["chat", "x", f"--max-tokens={value}"])
    assert caught.value.code == 2
    assert "is not a number from 1" in capfd.readouterr().err


def test_a_model_that_is_no_gguf_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"x" * 100)
    assert main(["chat", "x", "--model", str(path)]) == 1
    assert capfd.readouterr().err.startswith(f"callwright: {path} is not a GGUF file")


class Terminal:
    """A person in front of `callwright ARGUMENTS`."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int) -> None:
        self.process = process
        self._keyboard = keyboard
        self._unread = ""

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def wait_for(self, text: str, seconds: float = 20) -> str:
        """Read until `text` is there; returns everything up to it."""
        end = time.monotonic() + seconds
        while text not in self._unread:
            ready, _, _ = select.select([self._keyboard], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} did not come, but {self._unread!r}"
            self._unread += os.read(self._keyboard, 4096).decode("utf-8", "replace")
        before, _, self._unread = self._unread.partition(text)
        return before


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    keyboard, screen = pty.openpty()
    command = [sys.executable, "-m", "server", *arguments]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=screen, stdout=screen, stderr=screen, cwd=root) as process:
        try:
            yield Terminal(process, keyboard)
        finally:
            process.kill()
            os.close(screen)
            os.close(keyboard)


def test_a_conversation_on_a_terminal(tools: str) -> None:
    hanging = Answer(sse(delta(content="Once"), end=b""), hangs=True)
    answers = [MODELS, Answer(CALL_STREAM), text_stream("It is sunny."), hanging, text_stream("Hi")]
    with (
        chat_server(*answers) as server,
        terminal("chat", "--tools", tools, "--url", server.url) as person,
    ):
        assert "first: /reset forgets" in person.wait_for("> ")
        person.type("Weather in Porto?\n")
        assert "→ get_weather(" in person.wait_for("20 + 9 tokens, ")
        person.wait_for("result of get_weather> ")
        person.type("sunny\n")
        assert "It is sunny." in person.wait_for("> ")
        person.type("A story?\n")
        person.wait_for("Once")
        person.process.send_signal(signal.SIGINT)
        person.wait_for("cancelled")
        person.wait_for("> ")
        person.type("Hello\n")
        person.wait_for("Hi")
        person.wait_for("> ")
        person.type("\x04")
        assert person.process.wait(10) == 0
    assert [message["content"] for message in server.requests[-1][2]["messages"]] == [
        "Weather in Porto?", None, "sunny", "It is sunny.", "Hello",
    ]  # fmt: skip


def test_json_on_a_terminal_needs_a_question() -> None:
    with terminal("chat", "--json") as person:
        person.wait_for("--json needs a question")
        assert person.process.wait(10) == 1


def test_ctrl_c_ends_a_single_question(tools: str) -> None:
    hanging = Answer(
        sse(call_delta("get_weather", '{"ci'), end=b""),
        hangs=True,
    )
    with (
        chat_server(hanging) as server,
        terminal("chat", "x", "--url", server.url, "--model", "mine") as person,
    ):
        person.wait_for('{"ci')
        person.process.send_signal(signal.SIGINT)
        assert person.process.wait(10) == 130


SMALL = ["--model", "smollm2-135m-instruct"]


@pytest.mark.weights
def test_a_real_model_calls_a_tool(tools: str, capfd: pytest.CaptureFixture[str]) -> None:
    question = ["What is the weather in Porto?", "--tools", tools, "--tool-choice", "get_weather"]
    assert main(["chat", *question, *SMALL, "--json"]) == 0
    out, err = capfd.readouterr()
    [call] = json.loads(out)["tool_calls"]
    assert list(json.loads(call["function"]["arguments"])) == ["city"]
    assert "Traceback" not in err


@pytest.mark.weights
def test_a_real_conversation(tools: str) -> None:
    ask: list[str] = ["--tools", tools, "--tool-choice", "get_weather", "--max-tokens", "400"]
    with terminal("chat", *ask, *SMALL) as person:
        person.wait_for("> ", 120)
        person.type("Weather in Porto?\n")
        person.wait_for("result of get_weather> ", 120)
        person.type("sunny\n")
        person.wait_for(" cached", 120)
        person.type("/quit\n")
        assert person.process.wait(20) == 0


@pytest.mark.weights
def test_a_schema_that_cannot_be_enforced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tools.json"
    path.write_text('{"name": "f", "parameters": {"properties": {"a": {"type": "nonsense"}}}}')
    assert main(["chat", "x", "--tools", str(path), *SMALL]) == 1
    assert "callwright: the parameters of tool 'f' cannot be enforced" in capfd.readouterr().err
