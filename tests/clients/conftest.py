"""A really started server, shared by all clients. It runs in the project's own environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.clients.weather import Weather
from tests.e2e.process import ROOT, started

# Before litellm is imported: no look-up of prices on the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


@dataclass(frozen=True)
class Served:
    model: str
    url: str

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def has(self, path: str) -> bool:
        """Whether the server's own description lists this path."""
        return path in httpx.get(f"{self.url}/openapi.json").json()["paths"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--model", default="smollm2-135m-instruct", help="the model to serve")
    parser.addoption(
        "--server-python",
        default=str(ROOT / ".venv" / "bin" / "python"),
        help="the interpreter where Callwright is installed",
    )


@pytest.fixture(scope="session")
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """The server, which must not complain about any client and end cleanly."""
    model = request.config.getoption("--model")
    python = request.config.getoption("--server-python")
    with started("serve", "--port", "0", "--model", model, python=python) as running:
        running.wait_until_ready()
        yield Served(model, running.url)
        assert running.end(signal.SIGINT) == 0
        assert "Traceback" not in running.stderr, running.stderr


@pytest.fixture
def weather() -> Weather:
    return Weather()
