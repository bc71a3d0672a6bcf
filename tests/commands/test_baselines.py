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


@pytest.fixture
def stored(tmp_path: Path, capfd: Captured) -> list[str]:
    """The options that name a folder of baselines; it has those of the cases in `cases`."""
    assert main(["bench", "init", str(tmp_path / "cases")]) == 0
    options = ["--baselines", str(tmp_path / "stored")]
    with fake_server(right) as server:
        for model in ("m", "org/[/]", "../../evil", "SMOLLM2-135m-instruct"):
            given = ["--dataset", str(tmp_path / "cases"), "--out", str(tmp_path / "run")]
            assert main(["bench", "templates", server.url, "--model", model, *given]) == 0
    given = ["--dataset", str(tmp_path / "cases"), *options]
    assert main(["bench", "keep", str(tmp_path / "run"), *given]) == 0
    capfd.readouterr()
    return options


def test_nothing_compared_is_a_failure(stored: list[str], capfd: Captured) -> None:
    def broken(_: dict[str, Any]) -> Answer:
        return Answer(b"{}", 500)

    def half(body: dict[str, Any]) -> Answer:
        return broken(body) if "Porto" in body["messages"][-1]["content"] else right(body)

    check = ["--model", "m", *stored]
    with fake_server(broken) as server:
        assert main(["bench", "check", server.url, *check]) == 1
    assert main(["bench", "check", "http://127.0.0.1:9", *check]) == 1
    said = "m / default: nothing was compared; 7 rows of the baseline got no answer"
    assert capfd.readouterr().err.count(said) == 2
    with fake_server(half) as server:
        assert main(["bench", "check", server.url, *check]) == 0
    assert "2 rows); 5 rows of the baseline got no answer" in capfd.readouterr().out


@pytest.mark.parametrize(
    "model", ["m", "org/[/]", "../../evil", "SmolLM2-135M-Instruct", "smollm2-135m-instruct"]
)
def test_a_model_is_compared_whatever_its_name(
    stored: list[str], model: str, tmp_path: Path, capfd: Captured
) -> None:
    assert len(list((tmp_path / "stored").iterdir())) == 4
    for path in (tmp_path / "stored").iterdir():
        path.write_text(path.read_text("utf-8").replace('"model": "', '"model": "an older '))
    with fake_server(right) as server:
        assert main(["bench", "check", server.url, "--model", model, model, *stored]) == 0
        assert {body["model"] for body in server.bodies} == {model}
        assert len(server.bodies) == 7
    assert "(p = 1, 7 rows)" in capfd.readouterr().out


def test_changed_cases_are_neither_asked_nor_compared(
    stored: list[str], tmp_path: Path, capfd: Captured
) -> None:
    path = tmp_path / "cases" / "weather.yaml"
    path.write_text(path.read_text("utf-8").replace("haiku about spring", "haiku of snow"))
    with fake_server(right) as server:
        assert main(["bench", "check", server.url, "--model", "m", *stored]) == 0
        assert len(server.bodies) == 6
    assert "6 rows); 1 were left out, as their cases have changed" in capfd.readouterr().out


def test_what_cannot_be_kept_is_told(stored: list[str], tmp_path: Path, capfd: Captured) -> None:
    keep = ["bench", "keep", str(tmp_path / "run"), *stored, "--dataset"]
    assert main([*keep, "bfcl:nonsense"]) == 1
    assert main([*keep, str(tmp_path / "nowhere")]) == 1
    assert main([*keep, str(tmp_path / "cases"), "--max-tokens", "9"]) == 1
    assert main(["bench", "check", "", "--model", "m", *stored]) == 1
    err = capfd.readouterr().err
    assert "there is no data set bfcl:nonsense" in err
    assert "another number of tokens: 512, 9" in err
    assert "'' is no address of a server" in err
