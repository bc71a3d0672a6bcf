from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.__main__ import main
from tests.bench.helpers import fake_server
from tests.commands.helpers import Answer, call_delta, delta, sse

Captured = pytest.CaptureFixture[str]


def right(body: dict[str, Any]) -> Answer:
    """Calls unless thanks or poems are asked for, as the example expects."""
    asked = body["messages"][-1]["content"]
    if "Thank" in asked or "haiku" in asked:
        return Answer(sse(delta(content="Gladly."), delta("stop")))
    chunks = [call_delta("get_weather", ""), call_delta(None, '{"city": "Porto"}', id=None)]
    return Answer(sse(*chunks, delta("tool_calls")))


def wrong(body: dict[str, Any]) -> Answer:
    return Answer(sse(delta(content="I do not know."), delta("stop")))


def run(url: str, cases: Path, out: Path, *more: str) -> int:
    given = ["--model", "m", "--dataset", str(cases), "--out", str(out)]
    return main(["bench", "templates", url, *given, *more])


def test_from_an_example_to_a_report_and_a_comparison(tmp_path: Path, capfd: Captured) -> None:
    cases = tmp_path / "cases"
    assert main(["bench", "init", str(cases)]) == 0
    with fake_server(right) as server, fake_server(wrong) as other:
        assert run(server.url, cases, tmp_path / "a") == 0
        last = json.loads(capfd.readouterr().out.splitlines()[-1])
        assert run(server.url, cases, tmp_path / "a") == 0  # there is nothing left to ask
        assert len(server.bodies) == 7
        assert run(other.url, cases, tmp_path / "b", "--sample", "3") == 0
        assert len(other.bodies) == 3
        assert run(server.url, cases, tmp_path / "c", "--variant", "no-descriptions") == 0
        assert "description" not in str(server.bodies[-1]["tools"])
        assert run(server.url, cases, tmp_path / "d", "--variant", "upside-down") == 1
    assert last["arms"][0]["right"]["right"] == 7
    assert "Summary" in (tmp_path / "a" / "report.html").read_text("utf-8")
    capfd.readouterr()
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    out = capfd.readouterr().out
    assert out.startswith("m / default: no difference shown (p = ")
    assert "a difference of 5 points needs about" in out
    both = ["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]
    assert main([*both, "--wish", "0"]) == 1


def test_verify_fails_for_few_phrasings_and_for_wrong_answers(
    tmp_path: Path, capfd: Captured
) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    path = tmp_path / "weather.yaml"
    with fake_server(right) as server, fake_server(wrong) as other:
        verify = ["tools", "verify", str(path), "--model", "m", "--url"]
        assert main([*verify, server.url]) == 0
        assert "7 of 7 phrasings pass" in capfd.readouterr().out
        assert main([*verify, other.url]) == 1
        assert "2 of 7 phrasings pass" in capfd.readouterr().out
        path.write_text(
            path.read_text("utf-8").replace("      - How warm is it in Porto today?\n", "")
        )
        assert main([*verify, server.url]) == 1
        assert "get_weather: 4 phrasings, at least 5" in capfd.readouterr().out


def test_other_servers_take_no_templates(tmp_path: Path, capfd: Captured) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    with fake_server(right) as server:
        assert run(server.url, tmp_path, tmp_path / "a", "--template", "native") == 1
    assert "only this server takes --template" in capfd.readouterr().err


def test_multi_turn_is_refused_with_its_reason(
    tmp_path: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prompts.bench.bfcl.fetch", lambda *_: tmp_path)
    arguments = ["http://127.0.0.1:9", "--dataset", "bfcl:multi_turn_base"]
    assert main(["bench", "templates", *arguments]) == 1
    assert "simulated APIs" in capfd.readouterr().err


def test_a_variant_that_changes_nothing_is_told(tmp_path: Path, capfd: Captured) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    path = tmp_path / "weather.yaml"
    path.write_text(path.read_text("utf-8").replace(", such as Porto", ""))
    with fake_server(right) as server:
        assert run(server.url, tmp_path, tmp_path / "a", "--variant", "no-examples") == 1
        assert server.bodies == []
    assert "changes none of these cases" in capfd.readouterr().err
