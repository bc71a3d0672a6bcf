from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.__main__ import main
from server.bench import peers, session
from server.bench.peers import Launch, Rig
from tests.bench.helpers import fake_server, right
from tests.bench.test_session import fake_launch
from tests.commands.helpers import Answer, delta, sse
from tests.models.helpers import LLAMA, gguf_bytes

Captured = pytest.CaptureFixture[str]


def test_two_servers_give_a_table_and_a_line_of_json(capfd: Captured) -> None:
    with fake_server() as a, fake_server() as b:
        arguments = ["--workload", "warm5", "--clients", "1,2", "--rounds", "2", "--threads", "2"]
        assert main(["bench", "load", a.url, "--against", b.url, *arguments]) == 0
    out, _ = capfd.readouterr()
    *table, last = out.splitlines()
    assert table[0].split()[:3] == ["workload", "load", "server"]
    assert any("ratio" in line for line in table)
    report = json.loads(last)
    assert report["seed"] == 1
    [comparison] = report["comparisons"]
    assert comparison["a"]["threads"] == 2
    assert (comparison["a"]["mode"], comparison["b"]["mode"]) == ("tools", "response_format")
    levels = [(one["workload"], one["load"], one["rounds"]) for one in comparison["results"]]
    assert levels == [("warm5", "1 client", 2), ("warm5", "2 clients", 2)]
    assert comparison["results"][0]["a"]["answers"] == 8
    assert comparison["results"][0]["a"]["faults"] == {}
    assert "tools" in a.bodies[0]
    assert "response_format" in b.bodies[0]


def test_one_server_and_only_json(capfd: Captured) -> None:
    with fake_server() as server:
        arguments = ["--workload", "agent", "chat", "--rate", "500", "--rounds", "1", "--json"]
        assert main(["bench", "load", server.url, "--model", "mine", *arguments]) == 0
    out, _ = capfd.readouterr()
    [comparison] = json.loads(out)["comparisons"]
    assert comparison["b"] is None
    assert comparison["a"]["model"] == "mine"
    assert [one["load"] for one in comparison["results"]] == ["500/s", "500/s"]
    assert {body["model"] for body in server.bodies} == {"mine"}


def test_by_default_there_are_five_rounds_and_twenty_answers(capfd: Captured) -> None:
    with fake_server() as server:
        assert main(["bench", "load", server.url, "--json", "--workload", "warm5", "cold"]) == 0
    results = json.loads(capfd.readouterr().out)["comparisons"][0]["results"]
    assert [(one["workload"], one["load"], one["rounds"]) for one in results] == [
        ("warm5", "1 client", 5),
        ("warm5", "4 clients", 5),
        ("warm5", "8 clients", 5),
        ("cold", "1 client", 10),
        ("cold", "4 clients", 5),
    ]
    assert all(one["a"]["answers"] >= 20 for one in results)


def test_wrong_answers_are_shown(capfd: Captured) -> None:
    wrong = Answer(sse(delta(content="No idea."), delta("stop")))
    with fake_server(lambda body: wrong if "tools" in body else right(body)) as server:
        arguments = ["--workload", "warm5", "--clients", "1", "--rounds", "1"]
        assert main(["bench", "load", server.url, *arguments]) == 0
    out, _ = capfd.readouterr()
    assert "4 times no call" in out
    assert json.loads(out.splitlines()[-1])["comparisons"][0]["results"][0]["a"]["answers"] == 0


def test_the_keys_of_two_servers(capfd: Captured) -> None:
    with fake_server() as a, fake_server() as b:
        arguments = ["--workload", "chat", "--clients", "1", "--rounds", "1"]
        keys = ["--api-key", "one", "--against-api-key", "two"]
        assert main(["bench", "load", a.url, "--against", b.url, *keys, *arguments]) == 0
    assert (a.keys, b.keys) == ({"Bearer one"}, {"Bearer two"})
    out, err = capfd.readouterr()
    assert "Bearer" not in out + err


def test_without_an_address_servers_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    rigs: list[Rig] = []

    def ours(rig: Rig, port: int) -> Launch:
        rigs.append(rig)
        return fake_launch("callwright", port)

    def no_peers(program: str | None) -> list[object]:
        assert program == "/opt/llama-server"
        return []

    monkeypatch.setattr(session, "ours", ours)
    monkeypatch.setattr(peers, "find_peers", no_peers)
    model = tmp_path / "small.gguf"
    model.write_bytes(gguf_bytes(LLAMA, [("token_embd.weight", [64, 3], 0, 768)]))
    arguments = ["--workload", "warm5", "--clients", "1", "--rounds", "1", "--json"]
    given = ["--model", str(model), "--llama-server", "/opt/llama-server", "--threads", "3"]
    assert main(["bench", "load", *given, *arguments]) == 0
    [comparison] = json.loads(capfd.readouterr().out)["comparisons"]
    assert comparison["a"]["name"] == "callwright"
    assert comparison["a"]["threads"] == 3
    [rig] = rigs
    assert (rig.model, rig.path, rig.context_length) == (str(model), model, 32768)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["http://"], "'http://' is no address of a server"),
        (["http://127.0.0.1:9"], "no answer from http://127.0.0.1:9/v1"),
        (["--against", "http://127.0.0.1:9"], "--against and --api-key need a URL"),
        (["--api-key", "k"], "--against and --api-key need a URL"),
    ],
)
def test_what_cannot_be_measured(arguments: list[str], complaint: str, capfd: Captured) -> None:
    assert main(["bench", "load", *arguments]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"callwright: {complaint}")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--clients", "0"], "'0' is not a number from 1"),
        (["--clients", "1,x"], "'x' is not a number from 1"),
        (["--rate", "0"], "'0' is not a number above 0"),
        (["--rate", "inf"], "'inf' is not a number above 0"),
        (["--rate", "x"], "'x' is not a number above 0"),
        (["--rate", "1", "--clients", "1"], "not allowed with"),
        (["--workload", "hot"], "invalid choice: 'hot'"),
        (["--peer-mode", "grammar"], "invalid choice: 'grammar'"),
    ],
)
def test_wrong_arguments(arguments: list[str], complaint: str, capfd: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "load", "http://127.0.0.1:9", *arguments])
    assert complaint in capfd.readouterr().err


def test_the_help_of_load_has_workloads_and_examples(capfd: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "load", "--help"])
    out, _ = capfd.readouterr()
    assert "  warm40           the same 40 tools" in out
    assert "  callwright bench load http://127.0.0.1:8080 --against" in out
    assert "{name, arguments}" in out
