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


def line(capfd: Captured) -> Any:
    """The last one, which is JSON."""
    return json.loads(capfd.readouterr().out.splitlines()[-1])


def test_from_an_example_to_a_report_and_a_comparison(tmp_path: Path, capfd: Captured) -> None:
    cases = tmp_path / "cases"
    assert main(["bench", "init", str(cases)]) == 0
    with fake_server(right) as server, fake_server(wrong) as other:
        assert run(server.url, cases, tmp_path / "a") == 0
        last = line(capfd)
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


def test_a_run_without_an_answer_fails_and_its_errors_are_told(
    tmp_path: Path, capfd: Captured
) -> None:
    cases, out = tmp_path / "cases", tmp_path / "out"
    assert main(["bench", "init", str(cases)]) == 0

    def half(body: dict[str, Any]) -> Answer:
        return Answer(b"{}", 500) if "Porto" in body["messages"][-1]["content"] else right(body)

    def broken(_: dict[str, Any]) -> Answer:
        return Answer(b'{"error": {"message": "it is broken"}}', 500)

    with fake_server(broken) as server, fake_server(half) as other, fake_server(right) as good:
        assert run(server.url, cases, out) == 1
        assert "7 of 7 requests failed, the first: status 500: it is" in capfd.readouterr().err
        assert run(other.url, cases, out) == 0
        assert "5 of 7 requests failed" in capfd.readouterr().err
        assert run(good.url, cases, tmp_path / "good") == 0
        assert run(server.url, cases, out) == 1  # what had been answered is not asked
        assert "5 of 5 requests failed" in capfd.readouterr().err
    assert main(["bench", "compare", str(out), str(tmp_path / "good")]) == 0
    said = capfd.readouterr().out
    assert "2 rows)" in said
    assert "5 rows of A are errors, and left out" in said


def test_only_what_was_asked_for_now_is_reported(tmp_path: Path, capfd: Captured) -> None:
    cases, out = tmp_path / "cases", tmp_path / "out"
    assert main(["bench", "init", str(cases)]) == 0
    path = cases / "weather.yaml"
    with fake_server(right) as server:
        assert run(server.url, cases, out) == 0
        capfd.readouterr()
        assert run(server.url, cases, out, "--rows", "2", "--template", "default", "default") == 0
        assert [arm["right"]["count"] for arm in line(capfd)["arms"]] == [2]
        assert len(server.bodies) == 7
        assert run(server.url, cases, out, "--max-tokens", "7") == 0
        assert [arm["right"]["count"] for arm in line(capfd)["arms"]] == [7]
        assert len(server.bodies) == 14
        path.write_text(path.read_text("utf-8").replace("haiku about spring", "haiku of snow"))
        assert run(server.url, cases, out, "--max-tokens", "7") == 0
        assert len(server.bodies) == 15
        assert server.bodies[-1]["messages"][-1]["content"] == "Write a haiku of snow."
        assert run(server.url, cases, tmp_path / "other") == 0
        path.write_text(path.read_text("utf-8").replace("haiku of snow", "haiku of hail"))
        assert run(server.url, cases, out) == 0
    capfd.readouterr()
    assert main(["bench", "compare", str(out), str(tmp_path / "other")]) == 0
    said = capfd.readouterr().out
    assert "6 rows)" in said
    assert "1 cases have changed between the runs" in said


def test_what_is_named_twice_is_asked_once(tmp_path: Path) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    given = ["--dataset", *[str(tmp_path)] * 2, "--model", "m", "m", "--out", str(tmp_path / "a")]
    with fake_server(right) as server:
        variants = ["--variant", "shuffled", "plain", "shuffled"]
        path = tmp_path / "weather.yaml"
        tool = "  - {name: get_time, parameters: {type: object, properties: {}}}\n"
        path.write_text(path.read_text("utf-8").replace("\ncases:", f"{tool}\ncases:"))
        assert main(["bench", "templates", server.url, *given, *variants]) == 0
        assert len(server.bodies) == 14


def test_cases_of_one_id_are_refused(tmp_path: Path, capfd: Captured) -> None:
    for name in ("a", "b"):
        assert main(["bench", "init", str(tmp_path / name)]) == 0
    given = ["--dataset", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "c")]
    assert main(["bench", "templates", "http://127.0.0.1:9", *given]) == 1
    assert "two cases have the id weather-1-1" in capfd.readouterr().err


def test_distractors_come_from_all_cases_and_have_to_be_there(
    tmp_path: Path, capfd: Captured
) -> None:
    names = [f"tool_{at}" for at in range(4)]
    entries = [{"expect": [{name: {}}], "phrasings": ["Go"], "tools": [{"name": name}]}
               for name in names]  # fmt: skip
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in entries))
    with fake_server(right) as server:
        one, out = ("--rows", "1", "--variant"), tmp_path / "out"
        assert run(server.url, path, out, *one, "distractors-3") == 0
        [body] = server.bodies
        assert sorted(tool["function"]["name"] for tool in body["tools"]) == names
        assert run(server.url, path, out, *one, "distractors-4") == 1
        assert len(server.bodies) == 1
    assert "only 3 tools besides those of cases-1-1" in capfd.readouterr().err


def test_names_are_no_markup(tmp_path: Path, capfd: Captured) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    given = ["--model", "[/]", "[bold]m", "--dataset", str(tmp_path), "--rows", "1"]
    with fake_server(right) as server:
        assert main(["bench", "templates", server.url, *given, "--out", str(tmp_path / "a")]) == 0
    out, err = capfd.readouterr()
    assert "[/] / default" in out
    assert "[bold]m / default" in out
    assert "[bold]m" in err


def test_an_empty_url_is_refused(tmp_path: Path, capfd: Captured) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    for command in (
        ["tools", "verify", str(tmp_path), "--url", ""],
        ["bench", "templates", "", "--dataset", str(tmp_path), "--out", str(tmp_path / "a")],
    ):
        assert main(command) == 1
        assert "'' is no address of a server" in capfd.readouterr().err
