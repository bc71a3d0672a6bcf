from __future__ import annotations

import re
import socket
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.catalog import Catalog, Source
from server.commands import examine as examination
from server.commands.checks import Finding
from server.commands.examine import Probes, changed_settings, examine
from server.commands.machine import Build, Failure
from server.config import Settings
from tests.commands.helpers import Answer, chat_server
from tests.models.helpers import HUB, LLAMA, PIECE, entry_for, gguf_bytes

CONTENT = gguf_bytes(LLAMA, [("token_embd.weight", [64, 3], 0, 768)])
BUILD = Build(frozenset({"AVX2"}), (), uses_gpu=False, physical_cores=1)
DOWN = Failure("not reachable")
PROBES = Probes(build=lambda: BUILD, hub=lambda _: None, index=lambda package, version: None)


@pytest.fixture(autouse=True)
def catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    use_catalog(monkeypatch, HUB, PIECE)


def use_catalog(monkeypatch: pytest.MonkeyPatch, *sources: Source, content: bool = True) -> None:
    entry = replace(entry_for(CONTENT if content else None, *sources, size=9), default=True)
    monkeypatch.setattr(examination, "load_catalog", lambda: Catalog((entry,)))


def look(folder: Path, probes: Probes = PROBES, **settings: Any) -> dict[str, Finding]:
    given = {"model": "model", "models_dir": folder, "port": 0, **settings}
    return {row.what: row.finding for row in examine(Settings(**given), probes)}


def states(findings: dict[str, Finding], *names: str) -> list[str]:
    return [findings[name].state for name in names]


def test_a_model_that_is_here(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT)
    found = look(tmp_path)
    assert list(found) == [
        "Python", "packages", "llama.cpp", "CPU", "GPU", "threads", "compiler", "model", "memory",
        "disk", "address", "model hub", "package index", "settings",
    ]  # fmt: skip
    assert "llama Q4_K_M" in found["model"].found
    assert "SHA-256 known" in found["model"].found
    assert found["memory"].found.startswith("the model needs about 302 MB")
    assert all(finding.state != "problem" for finding in found.values())


def test_a_model_that_is_still_to_be_fetched(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert states(found, "model", "memory", "disk", "model hub") == ["note", "ok", "ok", "ok"]
    assert "callwright models pull model" in found["model"].advice
    assert "at least 300 MB" in found["memory"].found


def test_offline_nothing_is_asked_and_nothing_can_be_fetched(tmp_path: Path) -> None:
    def never(*_: object) -> None:
        raise AssertionError("asked the network")

    found = look(tmp_path, replace(PROBES, hub=never, index=never), offline=True)
    assert found["sources"] == Finding("ok", "not asked, offline mode is on")
    assert found["model"].state == "problem"
    assert "offline mode is on" in found["model"].found


def test_a_damaged_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT[:-100])
    found = look(tmp_path, model=str(path))
    assert found["model"].state == "problem"
    assert "incomplete" in found["model"].found
    assert "memory" not in found


def test_a_file_of_ones_own_needs_no_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    probes = replace(PROBES, hub=lambda _: DOWN, index=lambda package, version: DOWN)
    found = look(tmp_path, probes, model=str(path))
    assert states(found, "model", "model hub", "package index") == ["ok", "note", "note"]


def test_an_unknown_model_hides_nothing_else(tmp_path: Path) -> None:
    found = look(tmp_path, model="modell")
    assert found["model"].state == "problem"
    assert "did you mean model" in found["model"].advice
    assert states(found, "llama.cpp", "address") == ["ok", "ok"]


def test_a_hash_that_nobody_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_catalog(monkeypatch, HUB, content=False)
    (tmp_path / "model.gguf").write_bytes(CONTENT)
    assert "SHA-256 is not known" in look(tmp_path)["model"].found


@pytest.mark.parametrize(
    ("hub", "index", "expected"),
    [
        (None, None, ["ok", "ok"]),
        (DOWN, None, ["note", "ok"]),
        (None, DOWN, ["ok", "note"]),
        (DOWN, DOWN, ["problem", "problem"]),
    ],
)
def test_one_source_is_enough(
    tmp_path: Path, hub: Failure | None, index: Failure | None, expected: list[str]
) -> None:
    probes = replace(PROBES, hub=lambda _: hub, index=lambda package, version: index)
    assert states(look(tmp_path, probes), "model hub", "package index") == expected


def test_a_model_of_the_hub_alone_does_not_need_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(monkeypatch, HUB)
    asked = []

    def index(package: str, version: str | None) -> Failure:
        asked.append((package, version))
        return DOWN

    probes = replace(PROBES, hub=lambda _: DOWN, index=index)
    assert states(look(tmp_path, probes), "model hub", "package index") == ["problem", "note"]
    assert asked == [("llama-cpp-python", None)]


def test_the_index_is_asked_for_the_models_own_package(tmp_path: Path) -> None:
    asked = []
    look(tmp_path, replace(PROBES, index=lambda *question: asked.append(question)))
    assert asked == [("pieces-part1", "1.0")]


def test_an_engine_that_cannot_be_loaded(tmp_path: Path) -> None:
    found = look(tmp_path, replace(PROBES, build=lambda: Failure("no libgomp")))
    assert found["llama.cpp"].state == "problem"
    assert "CPU" not in found
    assert states(found, "compiler", "model") != ["problem", "problem"]


def test_a_fault_of_a_check_is_a_note(tmp_path: Path) -> None:
    def fail() -> Build:
        raise PermissionError("no")

    found = look(tmp_path, replace(PROBES, build=fail))
    assert found["llama.cpp"] == Finding("note", "could not be looked at: PermissionError: no")


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        found = look(tmp_path, port=other.getsockname()[1])
    assert found["address"].state == "problem"
    assert "is in use" in found["address"].found
    with chat_server(Answer(b'{"status": "ok", "model": "qwen"}')) as server:
        found = look(tmp_path, port=int(server.url.rpartition(":")[2]))
    assert found["address"].state == "problem"
    assert "serves qwen" in found["address"].found


def test_an_open_network_without_a_key(tmp_path: Path) -> None:
    found = look(tmp_path, host="0.0.0.0")
    assert found["address"].state == "problem"
    assert "--api-key" in found["address"].advice
    assert look(tmp_path, host="0.0.0.0", api_key=("k",))["address"].state == "ok"


def test_keys_are_counted_not_shown() -> None:
    settings = Settings(api_key=("sk-one", "sk-two"), port=9000, alias=("a", "b"), mlock=True)
    assert changed_settings(settings) == {
        "alias": "a,b",
        "mlock": "True",
        "port": "9000",
        "api_key": "(2 set)",
    }
    assert changed_settings(Settings()) == {}


def test_every_package_that_the_server_needs_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = {re.split("[^a-z0-9-]", one)[0] for one in project["dependencies"]}
    assert set(examination.PACKAGES) == needed
