"""A whole run: all levels on given addresses, or on servers that are started for it."""

from __future__ import annotations

import asyncio
import os
import platform
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from server.bench.bodies import Mode
from server.bench.client import Client, Target, connect
from server.bench.load import dialogue_count, measure
from server.bench.peers import Launch, Rig, Running, free_port, ours, running
from server.bench.report import Comparison, Machine, Result, Server, compare
from server.bench.workloads import Level, Series
from server.commands.machine import versions
from server.commands.remote import Remote, base_url, bearer
from server.errors import SetupError


@dataclass(frozen=True)
class Plan:
    """What is run, and how often: the least number of rounds with so many answers."""

    levels: tuple[Level, ...]
    series: Series
    least_rounds: int
    least_answers: int

    def rounds(self, level: Level) -> int:
        return level.rounds(self.least_rounds, self.least_answers)

    def dialogues(self, servers: int) -> int:
        """All that are had on so many servers in turn, warm-ups too."""
        return sum(dialogue_count(level, self.rounds(level), servers) for level in self.levels)


@dataclass(frozen=True)
class Watcher:
    """Is told of each level as it begins, and of each dialogue that ended."""

    begin: Callable[[str], None]
    tick: Callable[[], None]


async def run_levels(
    plan: Plan, targets: Sequence[Target], watcher: Watcher
) -> tuple[tuple[Result, ...], str | None]:
    """All levels, each on all targets in turn; and what ended them before the last, if anything.

    Raises SetupError if a target answers nothing on the first one.
    """
    results: list[Result] = []
    async with AsyncExitStack() as stack:
        clients: list[Client] = [
            await stack.enter_async_context(connect(target)) for target in targets
        ]
        for level in plan.levels:
            watcher.begin(f"{level.workload.name}, {level.load}")
            rounds = plan.rounds(level)
            try:
                measured = await measure(plan.series, level, rounds, clients, watcher.tick)
            except SetupError as exc:
                if not results:
                    raise
                return tuple(results), str(exc)
            results.append(compare(level, measured))
    return tuple(results), None


def compare_targets(
    plan: Plan, targets: Sequence[Target], threads: int | None, watcher: Watcher
) -> Comparison:
    """One or two servers that run already; `threads` is what the user says they have."""
    servers = [
        Server(one.name, one.url, one.model, one.mode, build_of(one), threads) for one in targets
    ]
    results, failed = asyncio.run(run_levels(plan, targets, watcher))
    return Comparison(servers[0], servers[1] if len(servers) > 1 else None, results, failed)


def compare_started(
    plan: Plan,
    rig: Rig,
    peers: Sequence[Callable[[Rig, int], Launch]],
    key: str | None,
    watcher: Watcher,
) -> list[Comparison]:
    """Our server against each peer, or alone if there is none. Each pair is started anew.

    Raises SetupError if no pair can be measured; of others the last comparison tells.
    """
    comparisons: list[Comparison] = []
    failures: list[SetupError] = []
    for others in [[peer] for peer in peers] or [[]]:
        watcher.begin("starting servers")
        try:
            with ExitStack() as stack:
                started = [stack.enter_context(running(ours(rig, free_port()), key))]
                started += [stack.enter_context(running(peer(rig, free_port()))) for peer in others]
                comparisons.append(_compare_started(plan, rig, started, key, watcher))
        except SetupError as exc:
            failures.append(exc)
    if not comparisons:
        raise failures[0]
    if failures:
        told = filter(None, [comparisons[-1].failed, *map(str, failures)])
        comparisons[-1] = replace(comparisons[-1], failed="; ".join(told))
    return comparisons


def _compare_started(
    plan: Plan, rig: Rig, started: Sequence[Running], key: str | None, watcher: Watcher
) -> Comparison:
    """The first of them is ours, and gets the key."""
    targets = [
        find_target(one.launch.url, None, one.launch.mode, None if at else key, one.launch.name)
        for at, one in enumerate(started)
    ]
    results, failed = asyncio.run(run_levels(plan, targets, watcher))
    servers = [
        Server(
            target.name, target.url, target.model, target.mode, one.launch.version, rig.threads,
            rig.context_length, one.peak_memory_bytes(),
        )
        for target, one in zip(targets, started, strict=True)
    ]  # fmt: skip
    return Comparison(servers[0], servers[1] if len(servers) > 1 else None, results, failed)


def find_target(
    url: str, model: str | None, mode: Mode, key: str | None, name: str | None = None
) -> Target:
    """A server at an address that a user gave; by default its first model is asked for.

    Its name is its address if not given. Raises SetupError if there is none.
    """
    try:
        base = base_url(url)
    except SetupError as exc:
        raise SetupError(f"{url!r} is no address of a server", hint=exc.hint) from None
    model = Remote(base, key, model).model
    return Target(name or urlsplit(base).netloc, base, model, mode, key)


def build_of(target: Target) -> str | None:
    """What llama-server says of its build; other servers have no place for that."""
    headers = bearer(target.key)
    root = target.url.removesuffix("/v1")
    try:
        props = httpx.get(f"{root}/props", headers=headers, timeout=10, trust_env=False).json()
        return str(props["build_info"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None


def this_machine(root: Path = Path("/")) -> Machine:
    """Where the benchmark runs now."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError):
        text = (root / "proc/cpuinfo").read_text("utf-8", "replace")
        found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
        cpu = found[1] if found else cpu
    packages = ("callwright", "llama-cpp-python", "outlines", "llguidance")
    return Machine(
        cpu=cpu,
        cores=os.cpu_count() or 1,
        system=platform.platform(),
        python=platform.python_version(),
        versions=versions(packages),
    )
