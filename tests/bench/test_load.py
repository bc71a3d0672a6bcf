from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from server.bench.bodies import Mode
from server.bench.client import Target, connect
from server.bench.load import Measured, dialogue_count, measure
from server.bench.workloads import WORKLOADS, Level, Open, Series
from server.errors import SetupError
from server.wire.body import JsonObject
from tests.bench.helpers import FakeServer, fake_server, level, right
from tests.commands.helpers import Answer, delta, sse

SERIES = Series(1, "abc")


async def run(
    one: Level,
    servers: Sequence[FakeServer],
    rounds: int = 2,
    modes: Sequence[Mode] = ("tools",) * 2,
) -> tuple[list[Measured], int]:
    ticks: list[None] = []
    targets = [
        Target(f"fake{at}", f"{server.url}/v1", "fake", mode)
        for at, (server, mode) in enumerate(zip(servers, modes, strict=False))
    ]
    async with connect(targets[0]) as a, connect(targets[-1]) as b:
        clients = [a, b][: len(servers)]
        measured = await measure(SERIES, one, rounds, clients, lambda: ticks.append(None))
    return measured, len(ticks)


@pytest.mark.parametrize("name", WORKLOADS)
async def test_each_workload_is_answered_in_full(name: str) -> None:
    one = level(name, clients=2)
    with fake_server() as server:
        [measured], ticks = await run(one, [server])
    samples = [sample for block in measured.blocks for sample in block.samples]
    assert len(measured.blocks) == 2
    assert len(samples) == 2 * one.dialogues * one.workload.turns
    assert [sample.fault for sample in samples if sample.fault] == []
    assert ticks == dialogue_count(one, rounds=2, servers=1)
    assert len(server.bodies) == len(samples) + 2
    assert server.most <= 2
    assert {block.forward_passes for block in measured.blocks} == {11.0 * len(samples) / 2}
    assert measured.counted_prompt is None


async def test_a_call_written_as_text_is_none_where_tools_were_offered() -> None:
    def written(body: JsonObject) -> Answer:
        return Answer(sse(delta(content='{"name": "x", "arguments": {}}'), delta("stop")))

    with fake_server(written) as server:
        [measured], _ = await run(level("agent"), [server])
    samples = [sample for block in measured.blocks for sample in block.samples]
    assert {sample.fault for sample in samples} == {"no call"}


async def test_two_servers_are_asked_for_the_same_in_turn() -> None:
    log: list[tuple[str, str]] = []

    def logged(name: str, body: JsonObject) -> Answer:
        log.append((name, body["messages"][1]["content"]))
        return right(body)

    with (
        fake_server(lambda body: logged("a", body)) as a,
        fake_server(lambda body: logged("b", body)) as b,
    ):
        (first, second), ticks = await run(level(), [a, b], 3, ("tools", "response_format"))
    assert "tools" in a.bodies[0]
    assert "response_format" in b.bodies[0]
    # A warm-up each, then rounds of four: A B, B A, A B.
    assert "".join(name for name, _ in log) == "ab" + "aaaabbbb" + "bbbbaaaa" + "aaaabbbb"
    assert [text for name, text in log if name == "a"] == [
        text for name, text in log if name == "b"
    ]
    assert len(first.blocks) == len(second.blocks) == 3
    assert ticks == dialogue_count(level(), rounds=3, servers=2) == 26


async def test_turns_of_an_agent_build_on_each_other() -> None:
    with fake_server() as server:
        [measured], _ = await run(level("agent"), [server], rounds=1)
    [block] = measured.blocks
    assert [sample.turn for sample in block.samples] == [0, 1, 2, 3, 4]
    prompts = [sample.prompt_tokens for sample in block.samples]
    assert [sample.previous_prompt_tokens for sample in block.samples] == [None, *prompts[:-1]]
    counts = [len(body["messages"]) for body in server.bodies[1:]]
    assert counts == [2, 4, 6, 8, 10]


async def test_a_wrong_answer_ends_its_dialogue_and_is_counted() -> None:
    def wrong_at_turn_three(body: JsonObject) -> Answer:
        if len(body["messages"]) == 6:
            return Answer(sse(delta(content="Sorry."), delta("stop")))
        return right(body)

    with fake_server(wrong_at_turn_three) as server:
        [measured], ticks = await run(level("agent"), [server], rounds=1)
    [block] = measured.blocks
    assert [sample.fault for sample in block.samples] == [None, None, "no call"]
    assert ticks == 2


async def test_a_refusal_is_a_fault_like_any_other() -> None:
    def busy_later(body: JsonObject) -> Answer:
        busy = Answer(b'{"error": {"message": "full"}}', 429)
        return right(body) if len(server.bodies) == 1 else busy

    with fake_server(busy_later) as server:
        [measured], _ = await run(level(), [server], rounds=1)
    assert {sample.fault for sample in measured.blocks[0].samples} == {"status 429: full"}


async def test_a_server_that_answers_nothing_is_told_at_once() -> None:
    refusal = Answer(b'{"error": {"message": "no such model"}}', 404)
    with (
        fake_server(lambda _: refusal) as server,
        pytest.raises(SetupError, match="fake0 answers nothing: status 404: no such model"),
    ):
        await run(level(), [server])
    assert len(server.bodies) == 1


async def test_a_server_without_usage_in_streams() -> None:
    def plain_usage_only(body: JsonObject) -> Answer:
        if body.get("stream"):
            return Answer(sse(*(delta(content=f"{n} ") for n in range(5)), delta("stop")))
        return Answer(json.dumps({"usage": {"prompt_tokens": 123}}).encode())

    with fake_server(plain_usage_only, passes=None) as server:
        [measured], _ = await run(level("chat"), [server], rounds=1)
    assert measured.counted_prompt == 123
    [block] = measured.blocks
    assert block.forward_passes is None
    assert {sample.prompt_tokens for sample in block.samples} == {None}
    assert {sample.output_tokens for sample in block.samples} == {5}


async def test_an_open_loop_does_not_wait_for_answers() -> None:
    opened = Level(WORKLOADS["warm5"], Open(1000.0))
    with fake_server() as server:

        def slow(body: JsonObject) -> Answer:
            deadline = time.monotonic() + 60
            while 1 < len(server.bodies) < 17 and time.monotonic() < deadline:
                time.sleep(0.005)
            return right(body)

        server.brain = slow
        [measured], ticks = await run(opened, [server], rounds=1)
    [block] = measured.blocks
    assert len(block.samples) == 16
    assert ticks == dialogue_count(opened, rounds=1, servers=1) == 17
    assert server.most == 16
