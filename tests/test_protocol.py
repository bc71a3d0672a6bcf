"""Who sends or reads too slowly, comes once too often, or speaks no HTTP."""

from __future__ import annotations

import contextlib
import socket

import pytest

from tests.fakes import WAIT_S
from tests.raw_http import connected, head, read_answer, request_bytes, some
from tests.serving import CHAT, Live, ask, live, rig, wait_until

SAYS = {"hello": "Hi."}
SOON_S = 0.2


def is_closed(connection: socket.socket) -> bool:
    """Whether the server ends the connection; what it still says is read."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


def nobody_is_left(serving: Live) -> None:
    state = serving.server.server_state
    wait_until(lambda: not state.tasks and not state.connections, "all are let go")


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"P",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: a",
        head(1000),
        head(1000) + b'{"model": "scri',
        head(None, "Transfer-Encoding: chunked") + b'5\r\n{"mod',
    ],
)
def test_a_request_that_does_not_come_in_time_is_408(begun: bytes) -> None:
    with live(rig({}, client_timeout_s=SOON_S)) as serving:
        with connected(serving) as connection:
            connection.sendall(begun)
            status, reply = read_answer(connection)
            assert is_closed(connection)
        nobody_is_left(serving)
    assert status == 408
    assert reply["error"]["code"] == "request_timeout"


def test_a_byte_now_and_then_does_not_buy_time() -> None:
    """The server ends it: the client alone would go on for ever."""
    with live(rig({}, client_timeout_s=SOON_S)) as serving, connected(serving) as connection:
        connection.settimeout(0.01)
        connection.sendall(head(10**6))
        received = b""
        with contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" not in received:
                connection.sendall(b" ")
                with contextlib.suppress(TimeoutError):
                    received += some(connection)
    assert received.startswith(b"HTTP/1.1 408 ")


def test_the_rest_of_a_body_that_nobody_wants_is_not_taken_for_ever() -> None:
    with live(rig({}, max_body_bytes=1024, client_timeout_s=SOON_S)) as serving:
        with connected(serving) as connection:
            connection.sendall(head(10**12))
            assert read_answer(connection)[0] == 413
            assert is_closed(connection)
        nobody_is_left(serving)


def test_a_connection_that_waits_between_two_requests_has_the_time_of_keep_alive() -> None:
    with live(rig(SAYS, client_timeout_s=SOON_S)) as serving, connected(serving) as connection:
        for _ in range(2):
            connection.sendall(request_bytes(ask("hello")))
            assert read_answer(connection)[0] == 200
            connection.settimeout(3 * SOON_S)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(WAIT_S)
        connection.sendall(b"POST")
        assert read_answer(connection)[0] == 408


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    made = rig({"hello": "Hi. " * 20_000}, context_length=100_000, client_timeout_s=SOON_S)
    with live(made) as serving, connected(serving) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # Long chunks, so that what the kernel holds for a slow reader is soon full.
        asked = ask("hello", stream=True, logprobs=True, top_logprobs=20)
        connection.sendall(request_bytes(asked))
        nobody_is_left(serving)
        wait_until(lambda: made.load == (0, 0), "the generation ended")


def test_more_connections_than_allowed_are_503_and_the_others_live() -> None:
    with live(rig(SAYS, max_connections=2)) as serving:
        with connected(serving) as first, connected(serving):
            wait_until(lambda: len(serving.server.server_state.connections) == 2, "both came")
            with connected(serving) as third:
                status, reply = read_answer(third)
                assert is_closed(third)
            first.sendall(request_bytes(ask("hello")))
            assert read_answer(first)[0] == 200
        nobody_is_left(serving)
        with serving.client() as client:
            assert client.post(CHAT, json=ask("hello")).status_code == 200
    assert status == 503
    assert reply["error"]["code"] == "too_many_connections"


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", head("-1")])
def test_what_is_no_http_is_400_in_the_envelope(sent: bytes) -> None:
    with live(rig({})) as serving:
        with connected(serving) as connection:
            connection.sendall(sent)
            status, reply = read_answer(connection)
            assert is_closed(connection)
        nobody_is_left(serving)
    assert status == 400
    assert set(reply["error"]) == {"message", "type", "param", "code"}


def test_garbage_after_an_answer_has_begun_ends_the_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with live(rig(SAYS, max_body_bytes=1024)) as serving:
        with connected(serving) as connection:
            connection.sendall(head(None, "Transfer-Encoding: chunked") + b"800\r\n")
            connection.sendall(b" " * 2048 + b"\r\nzz\r\n")
            assert is_closed(connection)
        nobody_is_left(serving)
        with serving.client() as client:
            assert client.post(CHAT, json=ask("hello")).status_code == 200
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
