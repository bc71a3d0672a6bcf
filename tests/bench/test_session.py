from __future__ import annotations

import sys
from pathlib import Path

import pytest

from server.bench import session
from server.bench.client import Target
from server.bench.peers import Launch, Rig
from server.bench.session import (
    Plan,
    Watcher,
    build_of,
    compare_started,
    compare_targets,
    find_target,
    this_machine,
)
from server.bench.workloads import Series
from server.errors import SetupError
from server.wire.body import JsonObject
from tests.bench.helpers import fake_server, level, right
from tests.commands.helpers import Answer

PLAN = Plan((level("warm5"), level("chat", 2)), Series(1, "abc"), least_rounds=1, least_answers=1)
RIG = Rig("small", Path("/models"), Path("/models/small.gguf"), threads=2, context_length=4096)


class Watched:
    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ticks = 0
        self.watcher = Watcher(self.begun.append, self.tick)

    def tick(self) -> None:
        self.ticks += 1


def test_two_addresses() -> None:
    watched = Watched()
    with fake_server() as a, fake_server() as b:
        targets = [
            find_target(a.url, None, "tools", "k"),
            find_target(f"{b.url}/v1/", "mine", "response_format", None),
        ]
        comparison = compare_targets(PLAN, targets, 2, watched.watcher)
    assert [target.model for target in targets] == ["fake", "mine"]
    assert targets[0].name == a.url.removeprefix("http://")
    assert comparison.a.version == "b1-fake"
    assert comparison.a.threads == 2
    assert comparison.b is not None
    assert comparison.b.mode == "response_format"
    assert [result.workload for result in comparison.results] == ["warm5", "chat"]
    assert all(result.time_ratio for result in comparison.results)
    assert [len(result.a.faults) for result in comparison.results] == [0, 0]
    assert watched.begun == ["warm5, 1 client", "chat, 2 clients"]
    assert watched.ticks == PLAN.dialogues(servers=2) == 2 * (1 + 4 + 2 + 4)
    assert a.keys == {"Bearer k"}
    assert b.keys == {None}


def test_what_was_measured_before_a_server_failed_is_told() -> None:
    def dying(body: JsonObject) -> Answer:
        return right(body) if "tools" in body else Answer(b"dead", status=500)

    watched = Watched()
    with fake_server(dying) as server:
        targets = [find_target(server.url, None, "tools", None)]
        comparison = compare_targets(PLAN, targets, None, watched.watcher)
    assert [result.workload for result in comparison.results] == ["warm5"]
    assert comparison.failed
    assert "status 500" in comparison.failed


def test_no_address() -> None:
    with pytest.raises(SetupError, match=r"^'ftp://x' is no address of a server$"):
        find_target("ftp://x", None, "tools", None)


def test_the_build_is_not_always_known() -> None:
    with fake_server() as server:
        target = Target("fake", f"{server.url}/v1/elsewhere", "fake", "tools")
        assert build_of(target) is None
    assert build_of(Target("fake", f"{server.url}/v1", "fake", "tools")) is None


# A process of its own that answers as the fake does.
SERVE = """
import sys, time
sys.path[:0] = {path!r}
from tests.bench import helpers
with helpers.fake_server(port={port}):
    time.sleep(600)
"""


def fake_launch(name: str, port: int) -> Launch:
    code = SERVE.format(path=sys.path, port=port)
    return Launch(name, (sys.executable, "-c", code), "tools", port, ready_path="/v1/models")


def test_servers_that_are_started_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ours", lambda _, port: fake_launch("callwright", port))
    watched = Watched()
    two = [lambda _, port: fake_launch("one", port), lambda _, port: fake_launch("two", port)]
    comparisons = compare_started(PLAN, RIG, two, None, watched.watcher)
    assert [(one.a.name, one.b and one.b.name) for one in comparisons] == [
        ("callwright", "one"),
        ("callwright", "two"),
    ]
    assert comparisons[0].a.threads == 2
    assert comparisons[0].a.context_length == 4096
    assert watched.ticks == 2 * PLAN.dialogues(servers=2)

    two[1] = lambda _, port: Launch("none", ("/nowhere",), "tools", port, ready_path="/")
    [first] = compare_started(PLAN, RIG, two, None, watched.watcher)
    assert first.b
    assert first.b.name == "one"
    assert first.failed

    [alone] = compare_started(PLAN, RIG, [], None, watched.watcher)
    assert (alone.a.name, alone.b) == ("callwright", None)


def test_the_machine(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n")
    machine = this_machine(tmp_path)
    assert machine.cpu == "Some CPU @ 2 GHz"
    assert machine.cores >= 1
    assert set(machine.versions) == {"callwright", "llama-cpp-python", "outlines", "llguidance"}
    assert this_machine(tmp_path / "none").cpu
