from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from models.catalog import Catalog
from server.commands import local
from server.config import Settings
from server.errors import SetupError
from tests.models.helpers import LLAMA, entry_for, gguf_bytes, serve_file

CONTENT = gguf_bytes(LLAMA, [("token_embd.weight", [64, 3], 0, 768)])
GIB = 1 << 30


def test_a_catalogued_model_is_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(model="model", models_dir=tmp_path)
    with serve_file(CONTENT) as server:
        entry = entry_for(CONTENT, server.source())
        monkeypatch.setattr(local, "load_catalog", lambda: Catalog((entry,)))
        fetched = local.local_model(settings, Console(stderr=True))
    assert fetched.path.read_bytes() == CONTENT
    again = local.local_model(Settings(model="model", models_dir=tmp_path, offline=True), Console())
    assert again == fetched


def test_a_file_is_looked_at_before_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT[:-100])
    with pytest.raises(SetupError, match="incomplete"):
        local.local_model(Settings(model=str(path)), Console())
    path.write_bytes(CONTENT)
    assert local.local_model(Settings(model=str(path)), Console()).name == "mine"


def test_a_model_that_does_not_fit_is_refused_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(local, "available_memory", lambda: GIB // 2)
    local.check_memory(path, Settings())
    with pytest.raises(SetupError, match=r"needs about \d+\.\d GiB of memory, 0\.5 are free"):
        local.check_memory(path, Settings(context_length=10_000_000))
    monkeypatch.setattr(local, "available_memory", lambda: None)
    local.check_memory(path, Settings(context_length=10_000_000))
