"""Runs the workloads against one server, or against two in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from server.bench.bodies import Answer, Script
from server.bench.check import fault
from server.bench.client import Client, Reply
from server.bench.workloads import WARM_UP, Dialogue, Level, Series
from server.errors import SetupError


@dataclass(frozen=True)
class Sample:
    """One request. Seconds; None for what the server does not tell.

    `wall_s` of an open loop counts from when the request should have been made. `stream_rate` is
    tokens per second between the first and the last piece. `previous_prompt_tokens` is of the turn
    before. `fault` is why the answer does not count.
    """

    turn: int
    wall_s: float
    first_s: float | None
    stream_rate: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    previous_prompt_tokens: int | None
    fault: str | None


@dataclass(frozen=True)
class Block:
    """One round on one server. `forward_passes` are all that the server made in it."""

    samples: tuple[Sample, ...]
    seconds: float
    forward_passes: float | None


@dataclass(frozen=True)
class Measured:
    """A level on one server. `counted_prompt` stands in where answers tell no prompt tokens."""

    blocks: tuple[Block, ...]
    counted_prompt: int | None = None


async def measure(
    series: Series, level: Level, rounds: int, clients: Sequence[Client], tick: Callable[[], None]
) -> list[Measured]:
    """What each server did in `rounds` rounds, after one to warm up.

    In each round all servers are asked for the same, one after the other; which one goes first
    alternates. `tick` is called after each dialogue, also of the warm-up. Raises SetupError if a
    server answers nothing at all.
    """
    blocks: list[list[Block]] = [[] for _ in clients]
    counted = [await _warm_up(series, level, client, tick) for client in clients]
    for round in range(rounds):
        dialogues = series.dialogues(level, round)
        arrivals = series.arrivals(level, round)
        sides = list(zip(clients, blocks, strict=True))
        for client, into in sides if round % 2 == 0 else reversed(sides):
            into.append(await run_block(client, level, dialogues, arrivals, tick))
    return [Measured(tuple(done), prompt) for done, prompt in zip(blocks, counted, strict=True)]


def dialogue_count(level: Level, rounds: int, servers: int) -> int:
    """How often `measure` calls `tick`."""
    return servers * (level.clients + rounds * level.dialogues)


async def _warm_up(
    series: Series, level: Level, client: Client, tick: Callable[[], None]
) -> int | None:
    dialogues = series.dialogues(level, WARM_UP)
    block = await run_block(client, level, dialogues, series.arrivals(level, WARM_UP), tick)
    if all(sample.first_s is None for sample in block.samples):
        raise SetupError(f"{client.target.name} answers nothing: {block.samples[0].fault}")
    if block.samples[0].prompt_tokens is not None:
        return None
    return await client.count_prompt(client.script.body(dialogues[0], []))


async def run_block(
    client: Client,
    level: Level,
    dialogues: Sequence[Dialogue],
    arrivals: Sequence[float],
    tick: Callable[[], None],
) -> Block:
    """Have all dialogues, each when it arrives and one of the level's clients is free for it."""
    passes = await client.forward_passes()
    began = time.perf_counter()
    waiting = iter(list(zip(dialogues, arrivals, strict=True)))
    samples: list[Sample] = []

    async def serve(queue: Iterator[tuple[Dialogue, float]]) -> None:
        for dialogue, after_s in queue:
            due = began + after_s
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            samples.extend(await _converse(client, dialogue, due if level.is_open else None))
            tick()

    workers = len(dialogues) if level.is_open else level.clients
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(serve(waiting))
    seconds = time.perf_counter() - began
    after = await client.forward_passes()
    made = after - passes if passes is not None and after is not None else None
    return Block(tuple(samples), seconds, made)


async def _converse(client: Client, dialogue: Dialogue, due: float | None) -> list[Sample]:
    """The turns of a dialogue, up to the first that is not answered as it should be."""
    answers: list[Answer] = []
    samples: list[Sample] = []
    for turn in range(len(dialogue.turns)):
        body = client.script.body(dialogue, answers)
        late = time.perf_counter() - due if due is not None and turn == 0 else 0.0
        reply = await client.ask(body)
        previous = samples[-1].prompt_tokens if samples else None
        samples.append(
            _sample(turn, reply, late, previous, _fault_of(reply, dialogue, client.script))
        )
        if samples[-1].fault:
            break
        answers.append(reply.answer)
    return samples


def _fault_of(reply: Reply, dialogue: Dialogue, script: Script) -> str | None:
    return reply.error or fault(reply.answer, dialogue.tools, in_text=script.in_text)


def _sample(
    turn: int, reply: Reply, late: float, previous: int | None, fault: str | None
) -> Sample:
    usage = reply.usage
    output = usage.completion_tokens if usage else reply.pieces
    return Sample(
        turn=turn,
        wall_s=late + reply.wall_s,
        first_s=None if reply.first_s is None else late + reply.first_s,
        stream_rate=_stream_rate(reply, output),
        prompt_tokens=usage.prompt_tokens if usage else None,
        output_tokens=output,
        cached_tokens=usage.cached_tokens if usage else None,
        previous_prompt_tokens=previous,
        fault=fault,
    )


def _stream_rate(reply: Reply, output: int) -> float | None:
    if reply.first_s is None or reply.last_s is None or reply.last_s <= reply.first_s:
        return None
    return (output - 1) / (reply.last_s - reply.first_s)
