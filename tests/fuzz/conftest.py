"""How long to fuzz, and what was tried.

`make fuzz` sets FUZZ_SECONDS. Without it what is marked `fuzz` is left out, and the rest is a slice
of a second or two, so that `make test` sees that the fuzzers work.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

SLICE_S = 1.5
TRIED = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TRIED] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "FUZZ_SECONDS" in os.environ:
        return
    left_out = [item for item in items if item.get_closest_marker("fuzz")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tried = terminalreporter.config.stash[TRIED]
    if tried:
        terminalreporter.section("inputs tried")
    for name, text in tried.items():
        terminalreporter.write_line(f"{name}: {text}")


@pytest.fixture
def seconds() -> float:
    """For all fuzzers together; each takes its share."""
    return float(os.environ.get("FUZZ_SECONDS", SLICE_S))


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says at the end of the run what was tried."""

    def note(text: str) -> None:
        request.config.stash[TRIED][request.node.name] = text

    return note
