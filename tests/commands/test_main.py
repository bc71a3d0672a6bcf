"""Tests of `server/__main__.py`."""

from __future__ import annotations

import argparse
import errno
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server import __main__ as entry
from server.errors import InvalidRequest, SetupError

ROOT = Path(__file__).parents[2]


class Command:
    """A command that ends as it is told."""

    def __init__(self, end: int | BaseException) -> None:
        self._end = end

    def add_parser(self, subparsers: Any) -> None:
        subparsers.add_parser("go").set_defaults(run=self._run)

    def _run(self, _: argparse.Namespace) -> int:
        if isinstance(self._end, int):
            return self._end
        raise self._end


@pytest.mark.parametrize(
    ("end", "status", "shown"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (SetupError("no disk"), 1, "callwright: no disk\n"),
        (SetupError("no disk", hint="Buy one."), 1, "callwright: no disk\n  Buy one.\n"),
        (InvalidRequest("tools[0]: no"), 1, "callwright: tools[0]: no\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 1, ""),
        (
            PermissionError(errno.EACCES, "Permission denied", "/root/my.gguf"),
            1,
            "callwright: /root/my.gguf: Permission denied\n",
        ),
        (OSError(errno.ENOSPC, "No space left"), 1, "callwright: No space left\n"),
    ],
)
def test_how_a_command_may_end(
    end: int | BaseException,
    status: int,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(entry, "COMMANDS", (Command(end),))
    assert entry.main(["go"]) == status
    assert capsys.readouterr() == ("", shown)


COMMANDS = [command.__name__.rpartition(".")[2] for command in entry.COMMANDS]


def test_the_commands() -> None:
    assert COMMANDS == ["serve", "chat", "models", "prompts", "tools", "bench", "doctor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_with_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        entry.main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: callwright {command}")
    examples = shown.partition("examples:\n")[2]
    assert f"  callwright {command}" in examples
    assert max(map(len, examples.splitlines())) <= 100


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of everything that can be run."""
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not inner:
        yield parser
    for action in inner:
        for one in action.choices.values():
            yield from leaves(one)


@pytest.mark.parametrize(
    "leaf", [pytest.param(one, id=one.prog) for one in leaves(entry.build_parser())]
)
def test_every_help_has_examples_that_are_taken(leaf: argparse.ArgumentParser) -> None:
    shown = leaf.format_help().partition("examples:\n")[2]
    lines = [line.strip() for line in shown.splitlines() if leaf.prog in line]
    assert lines, f"{leaf.prog} --help has no examples"
    for line in lines:
        words = shlex.split(line.partition(" < ")[0].partition(" > ")[0], comments=True)
        if words[0] == "callwright" and "$(" not in line and "&&" not in line:
            entry.build_parser().parse_args(words[1:])


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        entry.main(["--help"])
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n    {command} " in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "required: COMMAND"),
        (["sreve"], "invalid choice: 'sreve'"),
        (["serve", "--prot", "1"], "unrecognized arguments: --prot"),
    ],
)
def test_what_is_no_command(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        entry.main(arguments)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_help_loads_neither_model_runner_nor_web_server() -> None:
    heavy = "{'llama_cpp', 'outlines', 'llguidance', 'fastapi', 'uvicorn', 'huggingface_hub'}"
    code = f"import sys, server.__main__; print(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"


def test_it_runs_as_a_module() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "server", "models", "path", "no-such-model"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("callwright: no model is called 'no-such-model'\n  ")
