"""Many mixed requests to a real server, some abandoned, some malformed: nothing breaks or leaks.

`make soak` runs 2,000 of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest

from server.bench.phrases import draw_task, draw_tools
from tests.e2e.process import Running, started

REQUESTS = int(os.environ.get("SOAK_REQUESTS", "0"))
CLIENTS = 8
ABANDONED, MALFORMED = 0.10, 0.05
WARM_UP = 0.3  # of the requests, until memory is what it will be
SLOPE_BYTES = 10_000  # per request: a leak of one answer's text each would be more
JUDGED = 2000  # requests from which a slope of memory can be told from noise

pytestmark = [
    pytest.mark.weights,
    pytest.mark.timeout(4 * 3600),
    pytest.mark.skipif(not REQUESTS, reason="takes long: run by `make soak`"),
]

BROKEN: list[tuple[dict[str, Any], int]] = [
    ({"messages": []}, 400),
    ({"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}, 400),
    ({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "?"}]}, 400),
    ({"messages": [{"role": "user", "content": "x"}], "model": "nobody"}, 404),
]


@dataclass
class Told:
    """What the clients saw."""

    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)  # requests so far, bytes
    cells: float = 0.0  # of all, in use at the end


def bodies(seed: int) -> list[dict[str, Any]]:
    """Short requests with one to three tools, some of them the same ones again, or with none."""
    random_tools = [draw_tools(random.Random(f"{seed} {i}"), 1 + i % 3) for i in range(12)]
    made: list[dict[str, Any]] = []
    for i in range(REQUESTS):
        own = random.Random(f"{seed} {i}")
        tools = own.choice(random_tools)
        body: dict[str, Any] = {"messages": [{"role": "user", "content": draw_task(own, tools)}]}
        if own.random() < 0.8:
            body["tools"] = [tool.as_wire() for tool in tools]
            body["tool_choice"] = own.choice(["auto", "required"])
        made.append(body)
    return made


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def one(http: httpx.AsyncClient, body: dict[str, Any], kind: str, told: Told) -> None:
    if kind == "malformed":
        broken, status = random.choice(BROKEN)
        answer = await http.post("/v1/chat/completions", json={"model": body["model"], **broken})
        if answer.status_code != status or "error" not in answer.json():
            told.faults.append(f"{broken}: {answer.status_code} {answer.text[:200]}")
        return
    if kind == "abandoned":
        try:
            async with asyncio.timeout(random.uniform(0.01, 1.0)):
                await http.post("/v1/chat/completions", json=body)
        except TimeoutError:
            told.kinds["left"] += 1
        return
    if body.get("stream"):
        async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
            text = (await answer.aread()).decode()
        if answer.status_code != 200 or "[DONE]" not in text or '"error"' in text:
            told.faults.append(f"stream: {answer.status_code} {text[-300:]}")
        return
    answer = await http.post("/v1/chat/completions", json=body)
    if answer.status_code != 200:
        told.faults.append(f"{answer.status_code} {answer.text[:300]}")


async def client(
    http: httpx.AsyncClient, work: list[dict[str, Any]], model: str, told: Told, pid: int
) -> None:
    while work:
        body = {**work.pop(), "model": model, "max_tokens": random.randint(1, 32)}
        body["stream"] = random.random() < 0.5
        body["temperature"] = random.choice((0, 0, 0.7, 1.3))
        draw = random.random()
        kind = "abandoned" if draw < ABANDONED else "answered"
        kind = "malformed" if draw > 1 - MALFORMED else kind
        await one(http, body, kind, told)
        told.kinds[kind] += 1
        if sum(told.kinds.values()) % 10 == 0:
            told.memory.append((told.kinds.total() - told.kinds["left"], resident_bytes(pid)))


def floors(points: list[tuple[int, int]], windows: int = 10) -> list[tuple[int, int]]:
    """The lowest point of each window: freed memory goes back to the system in large pieces and at
    its own time, by 20 MB here, and what is never given back is what the lowest points rise by.
    """
    size = max(1, len(points) // windows)
    parts = [points[at : at + size] for at in range(0, len(points) - size + 1, size)]
    return [min(part, key=lambda point: point[1]) for part in parts]


def slope(points: list[tuple[int, int]]) -> float:
    """Bytes per request: the median over pairs of points (Theil and Sen), since a window may have
    been high all along.
    """
    rises = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2)]
    return median(rises) if rises else 0.0


async def soak(running: Running, told: Told) -> None:
    pid = running.process.pid
    async with httpx.AsyncClient(base_url=running.url, timeout=600) as http:
        model = (await http.get("/v1/models")).json()["data"][0]["id"]
        work = bodies(seed=5)
        random.seed(11)
        await asyncio.gather(*(client(http, work, model, told, pid) for _ in range(CLIENTS)))
        deadline = time.monotonic() + 60
        health: dict[str, Any] = {}
        while time.monotonic() < deadline:
            health = (await http.get("/health")).json()
            if not health["running"] and not health["waiting"]:
                break
            await asyncio.sleep(0.1)
        told.kinds["still running"] = health["running"] + health["waiting"]
        metrics = (await http.get("/metrics")).text
        found = re.search(r"^\S*kv_cache_usage_perc\S* (\S+)$", metrics, re.M)
        assert found
        told.cells = float(found[1])


async def test_nothing_breaks_and_nothing_leaks() -> None:
    told = Told()
    args: tuple[str, ...] = (
        "--port",
        "0",
        "--model",
        "smollm2-135m-instruct",
        "--max-sequences",
        "4",
    )
    args += ("--context-length", "4096", "--cached-tokens", "1000")
    with started("serve", *args, "--host-cache-tokens", "700", "--log-level", "warning") as running:
        running.wait_until_ready()
        threads = len(os.listdir(f"/proc/{running.process.pid}/task"))
        await soak(running, told)
        after = len(os.listdir(f"/proc/{running.process.pid}/task"))
        errors = running.stderr
    assert told.faults == []
    assert told.kinds["still running"] == 0
    assert told.cells < 0.3  # the 1,000 that may idle, of 4,096
    assert "Traceback" not in errors
    assert after <= threads + 40  # pools grow to their limit, once
    warm = floors([point for point in told.memory if point[0] > WARM_UP * REQUESTS])
    print(f"{dict(told.kinds)}; memory {slope(warm):.0f} bytes per request, {threads} to {after}")
    print("MB:", *(f"{size / 1e6:.0f} after {count}," for count, size in warm))
    if REQUESTS >= JUDGED:
        assert slope(warm) < SLOPE_BYTES
