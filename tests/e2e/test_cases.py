"""The conformance cases that lie beside the checkout, if they are there, against both models."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.e2e.conftest import Served
from tests.e2e.process import ROOT

CASES = ROOT.parent / "shared" / "cases"

pytestmark = [
    pytest.mark.weights,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not CASES.is_dir(), reason=f"there are no cases in {CASES}"),
]


def run_cases(served: Served, *options: str) -> str:
    """The report; its last line has the counts."""
    done = subprocess.run(
        [sys.executable, "run_cases.py", served.url, "handed", "--timeout", "300", *options],
        cwd=CASES,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_no_case_fails(served: Served) -> None:
    """Without `--reproducible` a case that failed is tried again, with all of its prompts cached.

    A prompt that is new goes through the model in batches of another shape than a cached one. That
    changes logits in their last digits, and where two tokens are nearly alike the plain answer,
    asked first, may differ from the streamed one.
    """
    report = run_cases(served)
    failed = re.findall(r"^FAIL ([\w-]+)", report, re.MULTILINE)
    print(report)
    if served.reproducible:
        assert failed == []
        return
    again = [run_cases(served, "--only", case) for case in failed]
    assert [text for text in again if "1 passed, 0 failed" not in text] == []
    assert len(failed) <= 2, report
