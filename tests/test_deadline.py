"""How long a request may take, by the server's limit and its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server.deadline import Deadline
from server.errors import TimedOut
from tests.fakes import Gate
from tests.serving import CHAT, MODEL, ask, rig, started

PROMPT = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
ASKED = {
    CHAT: ask("hello", max_tokens=50),
    "/v1/completions": {"model": MODEL, "prompt": PROMPT, "max_tokens": 50},
    "/v1/responses": {"model": MODEL, "input": "hello", "max_output_tokens": 50},
}


@pytest.mark.parametrize(
    ("asked", "most", "limit"), [(None, 0, None), (3, 0, 3), (None, 2, 2), (3, 2, 2), (1, 2, 1)]
)
def test_the_earlier_of_both_counts(asked: float | None, most: float, limit: float | None) -> None:
    assert Deadline.of(asked, most).limit_s == limit


async def test_what_takes_longer_is_cancelled() -> None:
    ended: list[str] = []

    async def work(deadline: Deadline, wait: asyncio.Event) -> None:
        async with deadline.kept():
            try:
                await wait.wait()
                ended.append("done")
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

    wait = asyncio.Event()
    with pytest.raises(TimedOut, match=r"^the request took longer than 0.01 s$"):
        await work(Deadline(0.01), wait)
    wait.set()
    await work(Deadline(None), wait)
    assert ended == ["cancelled", "done"]


@pytest.mark.parametrize(("path", "body"), ASKED.items())
async def test_a_request_may_say_how_long_it_may_take(path: str, body: dict[str, Any]) -> None:
    gate = Gate()
    made = rig({"hello": "Hi. " * 50}, gate=gate, request_timeout_s=60)
    async with started(made) as client:
        slow = await client.post(path, json={**body, "request_timeout_s": 0.2})
        gate.open()
        wrong = await client.post(path, json={**body, "request_timeout_s": 0})
        fine = await client.post(path, json={**body, "request_timeout_s": 30})
    assert slow.status_code == 504
    assert slow.json()["error"]["code"] == "timeout"
    assert wrong.status_code == 400
    assert wrong.json()["error"]["param"] == "request_timeout_s"
    assert fine.status_code == 200
