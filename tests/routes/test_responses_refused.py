"""`/v1/responses` over HTTP, without weights: what is refused, and what fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from server.engine.runner import DecodeFailed
from server.responses.database import Database
from tests.fakes import Gate
from tests.responses.helpers import RESPONSES, ask, body, flat_tool, folded, read_stream
from tests.serving import rig, soon, started
from tests.test_app import error_of

SAYS = {"hello": "Hi."}
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


async def refusal(
    given: Any, *, values: dict[str, Any] | None = None, **fields: Any
) -> tuple[int, Any]:
    """Status and error of a request that is refused before anything is generated."""
    made = rig(SAYS, **(values or {}))
    async with started(made) as client:
        answer = await client.post(RESPONSES, json=body(given, **fields))
    assert made.runner.passes == []
    return answer.status_code, error_of(answer)


# Refusals


async def test_without_a_store_what_needs_one_is_refused() -> None:
    off: dict[str, Any] = {"responses_store": "off"}
    for fields in ({"store": True}, {"previous_response_id": "resp_x"}):
        status, error = await refusal("hello", values=off, **fields)
        assert (status, error["param"]) == (400, next(iter(fields)))
    status, error = await refusal([{"type": "item_reference", "id": "msg_x"}], values=off)
    assert (status, error["param"], error["code"]) == (404, "input[0].id", "item_not_found")
    async with started(rig(SAYS, **off)) as client:
        made = await ask(client, "hello")
        assert made["store"] is False
        assert (await client.get(f"{RESPONSES}/{made['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("given", "fields", "status", "param"),
    [
        ("hello", {"previous_response_id": "resp_x"}, 404, "previous_response_id"),
        ("hello", {"model": "nobody"}, 404, "model"),
        ("hello", {"background": True}, 400, "background"),
        ("hello", {"conversation": "conv_1"}, 400, "conversation"),
        ("hello", {"prompt": {"id": "pmpt_1"}}, 400, "prompt"),
        ("hello", {"tools": [{"type": "web_search"}]}, 400, "tools[0]"),
        ("x" * 5000, {}, 400, "input"),
        ([{"role": "user", "content": "hello"}, {"type": "image_generation_call"}], {}, 400,
         "input[1]"),
        ([{"id": "msg_x"}], {}, 404, "input[0].id"),
        ([{"role": "user", "content": "hello"}] * 6, {"values": {"max_messages": 5}}, 400, "input"),
        ([{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
          {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
          {"role": "user", "content": "hello"},
          {"type": "function_call_output", "call_id": "c", "output": ""}], {}, 400,
         "input[3].call_id"),
        ("hello", {"tools": [flat_tool("f", {"properties": {"a": {"pattern": "("}}})]}, 400,
         "tools[0].parameters"),
        ("hello", {"text": {"format": {"type": "json_schema", "name": "x",
                                       "schema": {"pattern": "("}}}}, 400, "text.format.schema"),
        ("hello", {"logit_bias": {"99999": 1}}, 400, "logit_bias"),
    ],
)  # fmt: skip
async def test_a_refusal_says_where(given: Any, fields: Any, status: int, param: str) -> None:
    got, error = await refusal(given, **fields)
    assert (got, error["param"]) == (status, param), error
    assert "messages[" not in error["message"]


async def test_a_conversation_that_grew_too_long_is_refused() -> None:
    async with started(rig(SAYS, max_messages=5, max_body_bytes=3000)) as client:
        one = await ask(client, "hello")
        two = await ask(client, "hello", previous_response_id=one["id"])
        answer = await client.post(
            RESPONSES, json=body("hello " * 100, previous_response_id=two["id"])
        )
        assert answer.status_code == 200
        on = body(["hello"], previous_response_id=two["id"])
        on["input"] = [{"role": "user", "content": "hello"}] * 2
        many = await client.post(RESPONSES, json=on)
        big = await client.post(
            RESPONSES, json=body("hello", previous_response_id=answer.json()["id"])
        )
    assert (many.status_code, error_of(many)["param"]) == (400, "previous_response_id")
    assert (big.status_code, error_of(big)["param"]) == (413, "previous_response_id")


# Failures


def spoil(made: Any, pragma: str) -> None:
    """Let the store fail from now on as SQLite itself does."""
    database: Database = made.parts.responses._store._database
    database.connection.execute(f"PRAGMA {pragma}")


async def test_a_store_that_cannot_be_written_is_told_before_any_work() -> None:
    made = rig(SAYS)
    async with started(made) as client:
        spoil(made, "query_only = ON")
        answer = await client.post(RESPONSES, json=body("hello"))
        streamed = await client.post(RESPONSES, json=body("hello", stream=True))
        assert made.runner.passes == []
        stateless = await ask(client, "hello", store=False)
    for refused in (answer, streamed):
        assert refused.status_code == 500
        assert error_of(refused)["code"] == "store_failed"
        assert "store: false" in error_of(refused)["message"]
    assert stateless["output"][0]["content"][0]["text"] == "Hi."


@PLAIN_AND_STREAMED
async def test_a_disk_that_is_full_in_the_end_is_a_failure_not_a_success(stream: bool) -> None:
    made = rig({"hello": "x" * 300})
    async with started(made) as client:
        await ask(client, "hello")
        spoil(made, "max_page_count = 1")
        large = {str(n): "x" * 500 for n in range(16)}
        answer = await client.post(RESPONSES, json=body("hello", metadata=large, stream=stream))
    if not stream:
        assert answer.status_code == 500
        assert error_of(answer)["code"] == "store_failed"
        return
    *_, failed, error = read_stream(answer.text)
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert (error["type"], error["code"]) == ("error", "store_failed")


@PLAIN_AND_STREAMED
async def test_a_model_that_fails_fails_the_response(stream: bool) -> None:
    made = rig(SAYS)
    async with started(made) as client:
        made.runner.fail_next(DecodeFailed())
        answer = await client.post(RESPONSES, json=body("hello", stream=stream))
        after = await ask(client, "hello")
    if not stream:
        assert answer.status_code == 500
        error_of(answer)
    else:
        *_, failed, error = read_stream(answer.text)
        assert (failed["type"], error["type"]) == ("response.failed", "error")
        assert "Traceback" not in answer.text
    assert after["status"] == "completed"


async def test_the_beginning_is_sent_before_prefill() -> None:
    """And whoever leaves then ends the generation, of which nothing is kept."""
    gate = Gate()
    made = rig(SAYS, gate=gate)
    sent: list[bytes] = []
    left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not sent_body:
            sent_body.append(True)
            data = json.dumps(body("hello", stream=True)).encode()
            return {"type": "http.request", "body": data, "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    sent_body: list[bool] = []
    scope = {
        "type": "http", "method": "POST", "path": RESPONSES, "raw_path": RESPONSES.encode(),
        "query_string": b"", "headers": [(b"host", b"localhost")], "http_version": "1.1",
        "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    async with started(made):
        answering = asyncio.ensure_future(made.app(scope, receive, send))
        await soon(lambda: b"response.in_progress" in b"".join(sent), "the beginning was sent")
        assert made.runner.passes == []
        left.set()
        await answering
        gate.open()
        await soon(lambda: made.load == (0, 0), "nothing runs")
        assert b"response.completed" not in b"".join(sent)
        store = made.parts.responses._store
        assert store is not None
        kept = store._database.connection.execute("SELECT COUNT(*) FROM responses").fetchone()
        assert kept == (0,)


def test_folding_is_strict() -> None:
    with pytest.raises(AssertionError):
        folded([{"type": "response.created", "response": {}}] * 3)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"model": "scripted"}', b"\xff"])
async def test_a_body_that_is_no_request_is_400(content: bytes) -> None:
    async with started(rig(SAYS)) as client:
        answer: httpx.Response = await client.post(RESPONSES, content=content)
    assert answer.status_code == 400
    error_of(answer)
