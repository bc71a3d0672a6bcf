from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from models import sources
from models.catalog import HubSource, UrlSource
from models.errors import SourceError
from models.sources import describe, locate_on_hub, prepare
from models.web import Remote
from tests.models.helpers import HUB, PIECE, content_of, entry_for, serve_file, tools_with

CONTENT = content_of(12)
HASH = hashlib.sha256(CONTENT).hexdigest()
ROOT = Path(__file__).parents[2]

# The hub's library reads the address of the hub when it is imported: hence a process of its own.
ASK = """
from models.catalog import HubSource
from models.errors import SourceError
from models.sources import locate_on_hub
try:
    found = locate_on_hub(HubSource("hub", "someone/model-GGUF", "model.gguf"))
except SourceError as exc:
    print("refused:", exc)
else:
    print(found.url, found.size, found.sha256)
"""


def ask_hub(**environment: str) -> str:
    kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_a_hub_that_answers_gives_address_size_and_hash() -> None:
    with serve_file(CONTENT) as server:
        hub = server.url.rsplit("/", 1)[0]
        answer = ask_hub(HF_ENDPOINT=hub)
    assert answer == f"{hub}/someone/model-GGUF/resolve/main/model.gguf {len(CONTENT)} {HASH}"


def test_a_hub_that_is_off_says_so() -> None:
    assert "switched off" in ask_hub(HF_HUB_OFFLINE="1")


def test_a_hub_that_refuses_is_not_reachable() -> None:
    assert ask_hub(HF_ENDPOINT="http://127.0.0.1:9").startswith("refused: not reachable")


def test_a_hub_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(_: HubSource) -> Remote:
        time.sleep(3)
        raise AssertionError

    monkeypatch.setattr(sources, "_ask_hub", hang)
    monkeypatch.setattr(sources, "HUB_DEADLINE_S", 0.05)
    began = time.monotonic()
    with pytest.raises(SourceError, match="no answer"):
        locate_on_hub(HUB)
    assert time.monotonic() - began < 2


def test_another_version_than_the_catalogs_is_not_even_begun() -> None:
    entry = entry_for(CONTENT, HUB)
    right = Remote("http://h/x", len(CONTENT), HASH)
    assert prepare(HUB, entry, tools_with(remote=right)).sha256 == HASH
    for wrong in (dataclasses.replace(right, size=3), dataclasses.replace(right, sha256="1" * 64)):
        with pytest.raises(SourceError, match="another version"):
            prepare(HUB, entry, tools_with(remote=wrong))


def test_an_entry_without_a_hash_takes_the_hubs() -> None:
    entry = entry_for(None, HUB, size=7)
    transfer = prepare(HUB, entry, tools_with(remote=Remote("http://h/x", 5, HASH)))
    assert (transfer.size, transfer.sha256) == (5, HASH)
    with pytest.raises(SourceError, match="no size and SHA-256"):
        prepare(UrlSource("url", "http://h/x"), entry, tools_with())


def test_packages_need_room_for_two_of_them_on_top() -> None:
    assert prepare(PIECE, entry_for(CONTENT, PIECE), tools_with()).scratch_bytes == 2000


def test_sources_are_named_for_people() -> None:
    assert describe(HUB) == "the model hub (someone/model-GGUF)"
    assert describe(PIECE) == "the package index (12 packages)"
    assert describe(dataclasses.replace(PIECE, count=1)) == "the package index (a package)"
    assert describe(UrlSource("url", "http://h/x")) == "the address http://h/x"
