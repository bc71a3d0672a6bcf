"""The JavaScript clients: each file in `js` is run by Node's own test runner."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Served

FOLDER = Path(__file__).parent / "js"
NODE = FOLDER / "node_modules" / ".bin" / "node"

pytestmark = pytest.mark.skipif(
    not NODE.exists(), reason="npm was not there to install the JavaScript clients"
)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.test.mjs")), ids=lambda path: path.stem)
def test_client(served: Served, path: Path) -> None:
    settings = {"CALLWRIGHT_BASE_URL": served.base_url, "CALLWRIGHT_MODEL": served.model}
    done = subprocess.run(
        [str(NODE), "--test", "--test-reporter=spec", path.name],
        cwd=FOLDER,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ℹ pass 0" not in done.stdout
