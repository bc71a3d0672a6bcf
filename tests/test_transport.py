"""What happens on the socket: clients that leave, wait, stall, or speak as Java does."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from server.engine.runner import DecodeFailed
from tests.fakes import WAIT_S, Gate
from tests.raw_http import connected, request_bytes, some
from tests.serving import CHAT, Live, ask, live, parse_stream, rig, wait_until

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


def left(serving: Live) -> None:
    """Wait until the server has let go of every request."""
    wait_until(lambda: not serving.server.server_state.tasks, "the server noticed")


def step_until(gate: Gate, true: Callable[[], bool]) -> None:
    """Let the model go on, pass by pass, until something holds. One pass was let through."""
    for passes in range(2, 100):
        if true():
            return
        gate.allow(passes)
        time.sleep(0.02)
    raise AssertionError("it never came to that")


# Streams


def test_the_role_goes_out_before_prefill_and_pings_keep_a_slow_one_alive() -> None:
    gate = Gate()
    with live(rig({"hello": "Hi."}, gate=gate, ping_s=0.05)) as serving, serving.client() as client:
        with client.stream("POST", CHAT, json=ask("hello", stream=True)) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-cache"
            lines = answer.iter_lines()
            role = json.loads(next(lines).removeprefix("data: "))
            assert role["choices"][0]["delta"] == {"role": "assistant"}
            assert [next(lines) for _ in range(4)] == ["", ": ping", "", ": ping"]
            assert serving.rig.runner.passes == []
            gate.open()
            rest = [line for line in lines if line and line != ": ping"]
    assert rest[-1] == "data: [DONE]"


def test_a_stream_is_sent_as_it_is_made() -> None:
    gate = Gate(allowed=1)
    with live(rig({"hello": "Hi."}, gate=gate)) as serving, serving.client() as client:
        with client.stream("POST", CHAT, json=ask("hello", stream=True)) as answer:
            chunks = (json.loads(line[6:]) for line in answer.iter_lines() if "{" in line)
            deltas = (chunk["choices"][0]["delta"] for chunk in chunks)
            assert next(deltas) == {"role": "assistant"}
            for passes, piece in enumerate("Hi."):
                gate.allow(passes + 1)
                assert next(deltas) == {"content": piece}
            gate.open()


@pytest.mark.parametrize("asked", [None, {"include_usage": False}, {"include_usage": True}])
def test_usage_comes_in_one_last_chunk_if_asked_for(asked: dict[str, bool] | None) -> None:
    body = ask("hello", stream=True)
    if asked is not None:
        body["stream_options"] = asked
    with live(rig({"hello": "Hi."})) as serving, serving.client() as client:
        *chunks, done = parse_stream(client.post(CHAT, json=body).text)
    assert done.data == "[DONE]"
    wanted = asked == {"include_usage": True}
    assert [bool(chunk.data.get("usage")) for chunk in chunks] == [False] * (len(chunks) - 1) + [
        wanted
    ]
    if wanted:
        assert chunks[-1].data["choices"] == []
        assert chunks[-1].data["usage"]["completion_tokens"] == 3


def test_a_fault_after_the_first_words_is_an_error_event_after_them() -> None:
    gate = Gate(allowed=3)
    with live(rig({"hello": "Hi. " * 9}, gate=gate)) as serving, ThreadPoolExecutor(1) as pool:
        with serving.client() as client:
            answering = pool.submit(client.post, CHAT, json=ask("hello", stream=True))
            gate.wait(4)
            serving.rig.runner.fail_next(DecodeFailed())
            gate.open()
            answer = answering.result(WAIT_S)
    *before, last = parse_stream(answer.text)
    said = "".join(chunk.data["choices"][0]["delta"].get("content", "") for chunk in before)
    assert said
    assert "Hi. Hi. ".startswith(said)
    assert all(chunk.event == "message" for chunk in before)
    assert all("error" not in chunk.data for chunk in before)
    assert last.event == "error"
    assert set(last.data) == {"error"}
    assert set(last.data["error"]) == {"message", "type", "param", "code"}
    assert "[DONE]" not in answer.text


# Clients that leave


@contextlib.contextmanager
def asking(serving: Live, body: dict[str, Any]) -> Iterator[socket.socket]:
    """A request that was sent, on a connection that is closed at the end without an answer."""
    with connected(serving) as connection:
        connection.sendall(request_bytes(body))
        yield connection


@PLAIN_AND_STREAMED
def test_who_leaves_during_prefill_ends_the_work(stream: bool) -> None:
    gate = Gate(allowed=2)
    with live(rig({"#": "Hi."}, gate=gate)) as serving:
        with asking(serving, ask("#" * 1000, stream=stream)):
            gate.wait(3)
        left(serving)
        gate.open()
        wait_until(lambda: serving.rig.load == (0, 0), "the generation ended")
        assert len(serving.rig.runner.passes) == 3


@PLAIN_AND_STREAMED
def test_who_leaves_during_decode_ends_the_work(stream: bool) -> None:
    gate = Gate(allowed=9)
    with live(rig({"#": "Hi. " * 100}, gate=gate)) as serving:
        with asking(serving, ask("#", stream=stream)):
            gate.wait(10)
        left(serving)
        gate.open()
        wait_until(lambda: serving.rig.load == (0, 0), "the generation ended")
        assert len(serving.rig.runner.passes) == 10


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("seen", [False, True])
def test_who_leaves_the_queue_is_never_worked_for(stream: bool, seen: bool) -> None:
    """`seen`: the engine had queued the request already, else it was still on its way there."""
    gate = Gate(allowed=1)
    made = rig({"hello": "Hi. " * 20, "#": "Hi."}, gate=gate, max_sequences=1)
    with live(made) as serving, serving.client() as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, CHAT, json=ask("hello"))
        gate.wait(2)
        with asking(serving, ask("#", stream=stream)):
            tasks = serving.server.server_state.tasks
            wait_until(lambda: len(tasks) == 2, "the second request arrived")
            if seen:
                step_until(gate, lambda: made.load == (1, 1))
        wait_until(lambda: len(tasks) == 1, "the server noticed")
        gate.open()
        assert first.result(WAIT_S).json()["choices"][0]["message"]["content"] == "Hi. " * 20
        wait_until(lambda: made.load == (0, 0), "nothing is left in the queue")
    assert ord("#") not in {item.token for batch in made.runner.passes for item in batch}


def test_who_leaves_does_not_disturb_who_stays() -> None:
    gate = Gate(allowed=1)
    made = rig({"hello": "Hi. " * 50, "#": "Bye. " * 100}, gate=gate)
    with live(made) as serving, serving.client() as client, ThreadPoolExecutor(1) as pool:
        stays = pool.submit(client.post, CHAT, json=ask("hello"))
        gate.wait(2)
        with asking(serving, ask("#", stream=True)) as leaving:
            step_until(gate, lambda: made.load == (2, 0))
            assert b"200 OK" in some(leaving)
        wait_until(lambda: len(serving.server.server_state.tasks) == 1, "the server noticed")
        gate.open()
        assert stays.result(WAIT_S).json()["choices"][0]["message"]["content"] == "Hi. " * 50


# Time limits


def test_a_request_that_takes_too_long_is_504() -> None:
    gate = Gate(allowed=2)
    with (
        live(rig({"hello": "Hi. " * 50}, gate=gate, request_timeout_s=0.3)) as serving,
        serving.client() as client,
    ):
        answer = client.post(CHAT, json=ask("hello"))
        gate.open()
        wait_until(lambda: serving.rig.load == (0, 0), "the generation ended")
        assert len(serving.rig.runner.passes) <= 3
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "timeout"


def test_a_stream_that_takes_too_long_ends_in_an_error_event() -> None:
    gate = Gate(allowed=2)
    with (
        live(rig({"hello": "Hi. " * 50}, gate=gate, request_timeout_s=0.3)) as serving,
        serving.client() as client,
    ):
        answer = client.post(CHAT, json=ask("hello", stream=True))
        gate.open()
        wait_until(lambda: serving.rig.load == (0, 0), "the generation ended")
    *before, last = parse_stream(answer.text)
    assert last.event == "error"
    assert last.data["error"]["code"] == "timeout"
    assert all("error" not in chunk.data for chunk in before)
    assert "[DONE]" not in answer.text


# The end of the server


@PLAIN_AND_STREAMED
def test_at_the_end_answers_are_finished_and_nobody_new_is_let_in(stream: bool) -> None:
    gate = Gate(allowed=2)
    made = rig({"hello": "Hi."}, gate=gate, shutdown_grace_s=WAIT_S)
    with live(made) as serving, serving.client() as client, ThreadPoolExecutor(1) as pool:
        answering = pool.submit(client.post, CHAT, json=ask("hello", stream=stream))
        gate.wait(3)
        serving.server.should_exit = True
        wait_until(lambda: _refuses(serving), "the port is closed")
        gate.open()
        answer = answering.result(WAIT_S)
        assert serving.ended.wait(WAIT_S)
    assert answer.status_code == 200
    assert answer.text.endswith("data: [DONE]\n\n") if stream else '"Hi."' in answer.text
    assert made.runner.closed


@PLAIN_AND_STREAMED
def test_an_answer_that_outlives_the_grace_ends_with_an_error(stream: bool) -> None:
    gate = Gate(allowed=2)
    made = rig({"hello": "Hi. " * 100}, gate=gate, shutdown_grace_s=0.1)
    with live(made) as serving, serving.client() as client, ThreadPoolExecutor(1) as pool:
        answering = pool.submit(client.post, CHAT, json=ask("hello", stream=stream))
        gate.wait(3)
        serving.server.should_exit = True
        wait_until(lambda: made.parts.engine._stopping.is_set(), "the grace is over")
        gate.open()
        answer = answering.result(WAIT_S)
        assert serving.ended.wait(WAIT_S)
    if stream:
        last = parse_stream(answer.text)[-1]
        assert (last.event, last.data["error"]["code"]) == ("error", "shutting_down")
    else:
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "shutting_down"
    assert len(made.runner.passes) == 3
    assert made.runner.closed


def test_told_twice_the_server_does_not_wait() -> None:
    gate = Gate(allowed=2)
    made = rig({"hello": "Hi. " * 100}, gate=gate, shutdown_grace_s=600)
    with live(made) as serving, serving.client() as client, ThreadPoolExecutor(1) as pool:
        answering = pool.submit(client.post, CHAT, json=ask("hello"))
        gate.wait(3)
        serving.server.should_exit = serving.server.force_exit = True
        wait_until(lambda: made.parts.engine._stopping.is_set(), "it does not wait")
        gate.open()
        assert serving.ended.wait(WAIT_S)
        with contextlib.suppress(httpx.TransportError):
            answering.result(WAIT_S)
    assert made.runner.closed


def test_a_request_that_never_comes_to_its_end_is_not_waited_for_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with live(rig({}, shutdown_grace_s=0.1)) as serving, connected(serving) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
        )
        wait_until(lambda: bool(serving.server.server_state.tasks), "the request has begun")
        serving.server.should_exit = True
        assert serving.ended.wait(WAIT_S)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def _refuses(serving: Live) -> bool:
    try:
        with connected(serving):
            return False
    except ConnectionRefusedError:
        return True


def test_many_at_once_are_all_answered_each_with_its_own() -> None:
    says = {f"question{n:02d}": f"answer {n}" for n in range(24)}
    made = rig(says, max_sequences=4)
    done = threading.Barrier(24)

    def one(question: str) -> str:
        with serving.client() as client:
            done.wait(WAIT_S)
            body = ask(question, stream=question.endswith(("1", "3", "5")))
            text = client.post(CHAT, json=body).text
        if body["stream"]:
            deltas = [c.data["choices"][0]["delta"] for c in parse_stream(text)[:-1]]
            return "".join(delta.get("content", "") for delta in deltas)
        content: str = json.loads(text)["choices"][0]["message"]["content"]
        return content

    with live(made) as serving, ThreadPoolExecutor(24) as pool:
        answers = dict(zip(says, pool.map(one, says), strict=True))
    assert answers == says
