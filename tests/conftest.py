"""What all tests may use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from rich.console import Console

from models.catalog import load_catalog
from models.fetch import fetch
from models.progress import progress_on
from server import config

# A busy machine is no failure; what hangs is ended by pytest-timeout.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

collect_ignore = ["clients"]  # has an environment of its own: make test-clients


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Commands set up logging for their process; here the next test wants its own."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(scope="session")
def small_model_path() -> Path:
    """A model of 135 million parameters, fetched into the user's models folder on first use."""
    entry = load_catalog().find("smollm2-135m-instruct")
    assert entry is not None
    progress = progress_on(Console(stderr=True))
    return fetch(entry, config.load().models_dir, offline=False, progress=progress)
