from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from server.__main__ import main
from server.commands import doctor
from server.commands.checks import note, ok, problem
from server.commands.examine import Row

ROWS = [
    Row("CPU", note("AVX512 [unused]", "Build it here.")),
    Row("model", problem("/a/very/long/path" * 9, "Fetch it.")),
    Row("disk", ok("fine")),
]


def shown(rows: list[Row]) -> str:
    out = io.StringIO()
    doctor.show(rows, Console(file=out, width=60))
    return out.getvalue()


def test_findings_are_shown_with_what_to_do() -> None:
    text = shown(ROWS)
    assert "note     CPU    AVX512 [unused]" in text
    assert "Build it here." in text
    assert "problem  model" in text
    assert "".join(text.split()).count("/a/very/long/path") == 9
    assert text.endswith("Problems: model. `callwright serve` will not work.\n")


def test_without_a_problem_it_says_so() -> None:
    assert shown(ROWS[:1]).endswith("Nothing keeps `callwright serve` from working.\n")


def test_the_real_machine_as_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--offline", "--port", "0", "--api-key", "sk-secret"]
    assert main(["doctor", *arguments, "--models-dir", str(tmp_path), "--json"]) == 1
    out, err = capfd.readouterr()
    report = json.loads(out)
    findings = {one["what"]: one for one in report["findings"]}
    assert report["problems"] == 1
    assert findings["model"]["state"] == "problem"
    assert "models pull" in findings["model"]["advice"]
    assert findings["llama.cpp"]["state"] == "ok"
    assert "api_key=(1 set)" in findings["settings"]["found"]
    assert "sk-secret" not in out + err


def test_a_wrong_setting_is_a_line_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--port", "99999"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("callwright: --port (CALLWRIGHT_PORT) is")
