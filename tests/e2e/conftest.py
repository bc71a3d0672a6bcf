"""A really started server per model, which the tests of this folder share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from openai import OpenAI

from tests.e2e.process import Running, run, started

MODELS = ("qwen2.5-coder-0.5b-instruct", "smollm2-135m-instruct")
# The smallest model runs so that its answers do not depend on what is cached or runs beside it:
# there, the same question has to have the same answer. The other runs as users have it, where near
# ties may fall either way.
REPRODUCIBLE = "smollm2-135m-instruct"
FETCH_S = 3600.0


@dataclass(frozen=True)
class Served:
    model: str
    running: Running
    client: OpenAI

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def reproducible(self) -> bool:
        return self.model == REPRODUCIBLE


def fetched(model: str) -> None:
    """Have the model in the user's folder, as `callwright models pull` puts it there."""
    pulled = run("models", "pull", model, timeout_s=FETCH_S)
    assert pulled.returncode == 0, pulled.stderr


@pytest.fixture(scope="session", params=MODELS)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """One server after the other. Each must end cleanly when told to by Ctrl-C."""
    model: str = request.param
    fetched(model)
    options = ["--reproducible"] if model == REPRODUCIBLE else []
    with started("serve", "--port", "0", "--model", model, *options) as running:
        running.wait_until_ready()
        with OpenAI(
            base_url=f"{running.url}/v1", api_key="none", timeout=300, max_retries=0
        ) as client:
            yield Served(model, running, client)
        assert running.end(signal.SIGINT) == 0
        assert "Traceback" not in running.stderr
        assert running.stderr.endswith("stopped\n")


@pytest.fixture(scope="session")
def small_model() -> str:
    """The name of a model that is there and loads in a moment."""
    fetched(MODELS[1])
    return MODELS[1]
