"""What comes over the socket: as Java sends it, slowly, badly, or not at all."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

from tests.java.jdk import java_with_compiler, jdk
from tests.raw_http import connected, head, read_answer, request_bytes, some
from tests.serving import CHAT, ask, live, rig, wait_until

# Every POST of a JDK client, also on a reused connection.
JDK_HEADERS = (
    "Connection: Upgrade, HTTP2-Settings",
    "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
    "Upgrade: h2c",
    "Content-Type: application/json",
    "User-Agent: langchain4j-openai",
)


# A Java client


@pytest.mark.parametrize("packets", [1, 2])
def test_the_upgrade_that_java_asks_for_does_not_lose_the_body(packets: int) -> None:
    body = json.dumps(ask("hello"), indent=2).replace('":', '" :').encode()
    lines = head(len(body), *JDK_HEADERS)
    with live(rig({"hello": "Hi."})) as serving, connected(serving) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):
            if packets == 1:
                connection.sendall(lines + body)
            else:
                connection.sendall(lines)
                time.sleep(0.2)
                connection.sendall(body)
            status, reply = read_answer(connection)
            assert status == 200
            assert reply["choices"][0]["message"]["content"] == "Hi."


@pytest.mark.parametrize("stream", [False, True])
def test_the_client_of_the_jdk_itself_is_answered(stream: bool) -> None:
    java = java_with_compiler()
    if java is None:
        pytest.skip("there is no JDK")
    body = json.dumps(ask("hello", stream=stream))
    with live(rig({"hello": "Hi."})) as serving, jdk(java, serving.url + CHAT) as client:
        answers = [client.post(body) for _ in range(3)]
    for status, text in answers:
        assert status == 200
        assert text.startswith("data: {" if stream else "{")


# Bodies that come slowly, badly, or not at all


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /v1/chat/comp",
        head(1000, "Content-Type: application/json"),
        head(1000) + b'{"model": "scri',
        head(None, "Transfer-Encoding: chunked") + b'5\r\n{"mod',
    ],
)
def test_who_sends_half_a_request_blocks_nobody(begun: bytes) -> None:
    with live(rig({"hello": "Hi."})) as serving, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(serving)).sendall(begun)
        with serving.client() as client:
            assert client.post(CHAT, json=ask("hello")).status_code == 200
        stack.close()
        wait_until(lambda: not serving.server.server_state.tasks, "all are let go")


def test_a_body_declared_too_large_is_refused_before_it_comes() -> None:
    with live(rig({}, max_body_bytes=1024)) as serving, connected(serving) as connection:
        connection.sendall(head(10**12))
        status, reply = read_answer(connection)
    assert status == 413
    assert reply["error"]["code"] == "request_too_large"


def test_a_body_that_grows_too_large_is_refused_while_it_comes() -> None:
    with live(rig({}, max_body_bytes=1024)) as serving, connected(serving) as connection:
        connection.sendall(head(None, "Transfer-Encoding: chunked"))
        connection.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
        connection.sendall(b"1\r\n \r\n")
        assert read_answer(connection)[0] == 413


def test_a_connection_lives_on_after_a_refusal_and_after_a_stream() -> None:
    body = json.dumps(ask("hello")).encode()
    with live(rig({"hello": "Hi."}, max_body_bytes=1024)) as serving:
        with connected(serving) as connection:
            connection.sendall(head(2000) + b" " * 2000)
            assert read_answer(connection)[0] == 413
            connection.sendall(head(1) + b"{")
            assert read_answer(connection)[0] == 400
            connection.sendall(request_bytes(ask("hello", stream=True)))
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += some(connection)
            assert b"data: [DONE]" in received
            connection.sendall(head(len(body)) + body)
            assert read_answer(connection)[0] == 200


def test_a_client_that_asks_before_it_sends_is_told_to_go_on() -> None:
    body = json.dumps(ask("hello")).encode()
    with live(rig({"hello": "Hi."})) as serving, connected(serving) as connection:
        connection.sendall(head(len(body), "Expect: 100-continue"))
        assert some(connection).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert read_answer(connection)[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        head("-1"),
        head("1e3"),
        head("\xb2"),
        head(5, "Content-Length: 6"),
        head(None, "Transfer-Encoding: gzip"),
        head(2, "X-Long: " + "a" * 200_000),
        head(2, "X-Null: a\0b"),
        head(2, "No colon"),
        head(None, "Transfer-Encoding: chunked") + b"zz\r\n",
    ],
)
def test_hostile_bytes_cost_their_sender_only(sent: bytes) -> None:
    with live(rig({"hello": "Hi."})) as serving:
        with connected(serving) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            received = connection.recv(65536)
            assert received == b"" or received.split(b" ")[1] in (b"400", b"431", b"501")
        with serving.client() as client:
            assert client.post(CHAT, json=ask("hello")).status_code == 200
        wait_until(lambda: not serving.server.server_state.tasks, "all are let go")


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer \xff\xfe\x80",
        "Accept: \xe9\xe8",
        "Content-Type: multipart/form-data; boundary=x",
        "Content-Encoding: gzip",
        "Upgrade: websocket",
        "X-Forwarded-For: 1.2.3.4, \xff",
        "X-HTTP-Method-Override: DELETE",
        "Range: bytes=0-1",
    ],
)
def test_odd_headers_change_nothing(line: str) -> None:
    body = json.dumps(ask("hello")).encode()
    with live(rig({"hello": "Hi."})) as serving, connected(serving) as connection:
        sent = head(len(body), line, "Connection: Upgrade")
        connection.sendall(sent + body)
        assert read_answer(connection)[0] == 200
