from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.catalog import Catalog, CatalogEntry
from server.commands import models
from server.errors import SetupError
from tests.models.helpers import HUB, LLAMA, content_of, entry_for, gguf_bytes, serve_file

CONTENT = gguf_bytes(LLAMA, [("token_embd.weight", [64, 3], 0, 768)])

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `callwright models ARGUMENTS` with `entries` as the catalog, in `tmp_path`."""

    def run_command(*arguments: str, entries: tuple[CatalogEntry, ...] = ()) -> int:
        monkeypatch.setattr(models, "load_catalog", lambda: Catalog(entries))
        monkeypatch.setenv("CALLWRIGHT_MODELS_DIR", str(tmp_path))
        parser = argparse.ArgumentParser()
        models.add_parser(parser.add_subparsers())
        args = parser.parse_args(["models", *arguments])
        status: int = args.run(args)
        return status

    return run_command


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().out


def test_pull_prints_the_path_and_a_second_pull_needs_no_server(
    run: Run, tmp_path: Path, shown: Callable[[], str]
) -> None:
    with serve_file(CONTENT) as server:
        entry = entry_for(CONTENT, server.source())
        assert run("pull", "model", entries=(entry,)) == 0
    assert run("pull", "MODEL", "--offline", entries=(entry,)) == 0
    assert run("path", "model", entries=(entry,)) == 0
    assert shown() == f"{tmp_path / 'model.gguf'}\n" * 3
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_models_dir_is_a_flag_too(run: Run, tmp_path: Path) -> None:
    with serve_file(CONTENT) as server:
        entry = entry_for(CONTENT, server.source())
        run("pull", "model", "--models-dir", str(tmp_path / "other"), entries=(entry,))
    assert (tmp_path / "other" / "model.gguf").exists()


def test_list_shows_what_is_here(run: Run, tmp_path: Path, shown: Callable[[], str]) -> None:
    here = entry_for(CONTENT, HUB)
    begun = entry_for(None, HUB, file="begun.gguf", size=1000)
    cut = entry_for(CONTENT, HUB, file="cut.gguf")
    (tmp_path / here.file).write_bytes(CONTENT)
    (tmp_path / cut.file).write_bytes(CONTENT[1:])
    (tmp_path / "mine.gguf").write_bytes(CONTENT)
    (tmp_path / "begun.gguf.part").mkdir()
    (tmp_path / "begun.gguf.part" / "data").write_bytes(bytes(250))
    assert run("list", entries=(here, begun, cut)) == 0
    rows = shown().splitlines()[1:5]
    states = [row.strip().split("  ")[-1].strip() for row in rows]
    assert states == ["yes", "25% fetched", "wrong size", "your own file"]


def test_list_as_json(run: Run, tmp_path: Path, shown: Callable[[], str]) -> None:
    run("list", "--json", entries=(entry_for(CONTENT, HUB), entry_for(None, HUB, file="b.gguf")))
    first, second = json.loads(shown())
    assert first["present"] is False
    assert first["path"] == str(tmp_path / "model.gguf")
    assert first["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    assert (second["size_bytes"], second["sha256"]) == (None, None)


def info(run: Run, shown: Callable[[], str], name: str, entry: CatalogEntry) -> dict[str, Any]:
    assert run("info", name, "--json", entries=(entry,)) == 0
    facts: dict[str, Any] = json.loads(shown())
    return facts


def test_info_before_and_after(run: Run, tmp_path: Path, shown: Callable[[], str]) -> None:
    entry = entry_for(CONTENT, HUB)
    before = info(run, shown, "model", entry)
    assert (before["present"], before["context_length"]) == (False, 128)
    assert "architecture" not in before
    (tmp_path / entry.file).write_bytes(CONTENT)
    after = info(run, shown, "model", entry)
    assert (after["present"], after["context_length"]) == (True, 2048)
    assert (after["architecture"], after["quantisation"]) == ("llama", "Q4_K_M")
    assert after["needs_memory_bytes"] > 300_000_000
    assert (after["chosen_template"], after["call_format"]) == ("native", "hermes")
    assert (after["call_notation"], "tools: ours" in after["message_shape"]) == ("json", True)
    own = info(run, shown, str(tmp_path / entry.file), entry)
    assert own["name"] == "model"
    assert own["own_chat_template"] is True


def test_info_for_people(run: Run, tmp_path: Path, shown: Callable[[], str]) -> None:
    entry = entry_for(CONTENT, HUB)
    (tmp_path / entry.file).write_bytes(CONTENT)
    run("info", "model", entries=(entry,))
    text = " ".join(shown().split())
    assert "own chat template yes" in text
    assert "about 300 MB with 2,048 tokens of context" in text
    assert "_bytes" not in text


def test_info_of_a_damaged_file_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT[:-100])
    with pytest.raises(SetupError, match="incomplete"):
        run("info", "model", entries=(entry_for(CONTENT, HUB),))


def test_verify_one_and_all(run: Run, tmp_path: Path, shown: Callable[[], str]) -> None:
    entry = entry_for(CONTENT, HUB)
    assert run("verify", entries=(entry,)) == 0
    assert shown() == f"no model files in {tmp_path}\n"
    assert run("verify", "model", entries=(entry,)) == 1
    assert "callwright models pull model" in shown()
    (tmp_path / entry.file).write_bytes(CONTENT)
    assert run("verify", entries=(entry,)) == 0
    assert shown() == "model: right\n"
    (tmp_path / entry.file).write_bytes(bytes(len(CONTENT)))
    assert run("verify", entries=(entry,)) == 1
    assert "WRONG" in shown()
    assert run("verify", entries=(entry_for(None, HUB),)) == 0
    assert "no SHA-256 is known" in shown()


def test_rm(run: Run, tmp_path: Path, shown: Callable[[], str]) -> None:
    entry = entry_for(content_of(5), HUB)
    (tmp_path / entry.file).write_bytes(content_of(5))
    assert run("rm", "model", entries=(entry,)) == 0
    assert run("rm", "model", entries=(entry,)) == 0
    assert shown() == "removed model, 5 kB\nmodel was not here\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("action", ["pull", "rm", "verify"])
def test_a_users_own_file_is_not_touched(run: Run, tmp_path: Path, action: str) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    with pytest.raises(SetupError, match="a file of your own"):
        run(action, str(path))
    assert path.read_bytes() == CONTENT


def test_path_of_a_model_that_is_not_here_is_an_error(run: Run) -> None:
    with pytest.raises(SetupError, match="is not in") as caught:
        run("path", "model", entries=(entry_for(CONTENT, HUB),))
    assert caught.value.hint == "fetch it with `callwright models pull model`"


def test_help_has_an_example(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    assert "callwright models pull smollm2-135m-instruct" in capsys.readouterr().out
