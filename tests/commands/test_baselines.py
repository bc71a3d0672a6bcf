from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.__main__ import main
from tests.bench.helpers import fake_server
from tests.commands.helpers import Answer
from tests.commands.test_templates import right, run, wrong

Captured = pytest.CaptureFixture[str]


def test_a_change_for_the_worse_is_told(tmp_path: Path, capfd: Captured) -> None:
    cases, stored = tmp_path / "cases", ["--baselines", str(tmp_path / "stored")]
    assert main(["bench", "init", str(cases)]) == 0
    path = cases / "weather.yaml"
    more = "".join(f"      - Weather in Porto, please, for the {at}th time?\n" for at in range(5))
    path.write_text(path.read_text("utf-8").replace("  - expect: none", more + "  - expect: none"))
    bodies: list[dict[str, Any]] = []

    def wrong_now(body: dict[str, Any]) -> Answer:
        bodies.append(body)
        return wrong(body)

    with fake_server(right) as server, fake_server(wrong_now) as other:
        assert run(server.url, cases, tmp_path / "run", "--max-tokens", "99") == 0
        kept = ["--dataset", str(cases), "--max-tokens", "99"]
        assert main(["bench", "keep", str(tmp_path / "run"), *kept, *stored]) == 0
        assert (tmp_path / "stored" / "m.json").is_file()
        check = ["--model", "m", *stored]
        capfd.readouterr()
        assert main(["bench", "check", server.url, *check]) == 0
        assert capfd.readouterr().out == ("m / default: no difference shown (p = 1, 12 rows)\n")
        assert main(["bench", "check", other.url, *check, "--out", str(tmp_path / "now")]) == 1
    assert "worse: m / default: the baseline is better by 83.3%" in capfd.readouterr().err
    assert (tmp_path / "now" / "results.jsonl").is_file()
    assert {body["max_tokens"] for body in bodies} == {99}


def test_what_is_not_stored_cannot_be_checked(tmp_path: Path, capfd: Captured) -> None:
    stored = ["--model", "m", "--baselines", str(tmp_path)]
    assert main(["bench", "check", "http://127.0.0.1:9", *stored]) == 1
    assert "there is no baseline of m" in capfd.readouterr().err
    (tmp_path / "m.json").write_text('{"model": 5}')
    assert main(["bench", "check", "http://127.0.0.1:9", *stored]) == 1
    assert "m.json is no baseline" in capfd.readouterr().err
    (tmp_path / "m.json").write_text(
        '{"model": "m", "tool_choice": "auto", "max_tokens": 9, "datasets": [],'
        ' "templates": {"native": {"right": [], "wrong": []}}}'
    )
    assert main(["bench", "check", "http://127.0.0.1:9", *stored, "--template", "x"]) == 1
    assert "none of these templates" in capfd.readouterr().err
