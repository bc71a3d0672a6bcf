"""The command `serve` up to where it serves; how it ends is in tests/e2e and test_transport."""

from __future__ import annotations

import json
import re
import shlex
import socket
from typing import Any, cast

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from server.commands.serve import banner, check_exposure, listen, make_server, url_of
from server.errors import SetupError
from tests.serving import rig, settings

KEY = ("sk-planted",)


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        ({"host": "127.0.0.1"}, True),
        ({"host": "::1"}, True),
        ({"host": "localhost"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "::"}, False),
        ({"host": ""}, False),
        ({"host": "192.0.2.7"}, False),
        ({"host": "0.0.0.0", "api_key": KEY}, True),
        ({"host": "0.0.0.0", "allow_open_network": True}, True),
    ],
)
def test_others_are_let_in_with_a_key_or_when_said_twice(
    values: dict[str, object], allowed: bool
) -> None:
    made = settings(**values)
    if allowed:
        check_exposure(made)
        return
    with pytest.raises(SetupError) as refused:
        check_exposure(made)
    assert "--api-key" in refused.value.message
    assert "--allow-open-network" in refused.value.hint


def test_port_0_is_any_free_port_and_it_listens_at_once() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_a_port_in_use_is_told() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SetupError, match=f"127.0.0.1 port {port} is in use"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a b", "a..b", "x" * 300])
def test_an_address_that_cannot_be_used_is_told(host: str) -> None:
    with pytest.raises(SetupError, match="cannot be used"):
        listen(host, 0)


def test_the_address_is_written_as_clients_need_it() -> None:
    assert url_of("127.0.0.1", 80) == "http://127.0.0.1:80"
    assert url_of("::1", 8080) == "http://[::1]:8080"


@pytest.mark.parametrize("has_key", [False, True])
def test_the_banner_can_be_copied_and_shows_no_key(has_key: bool) -> None:
    text = banner("http://127.0.0.1:8080", "tiny", has_key)
    assert "http://127.0.0.1:8080/v1 " in text
    _, curl, snippet, _ = re.split(r"\n-+(?:\n|$)", text)
    words = shlex.split(curl)
    body = json.loads(words[words.index("-d") + 1])
    assert (body["model"], body["tool_choice"]) == ("tiny", "required")
    assert ("Authorization: Bearer YOUR-KEY" in words) == has_key
    compile(snippet, "snippet", "exec")
    assert len(snippet.splitlines()) == 6


def test_the_server_is_set_up_for_clients_as_they_are() -> None:
    config = make_server(rig({}, keep_alive_s=77).parts).config
    # On h11: Java's upgrade would lose its body otherwise.
    assert issubclass(cast(Any, config.http).func, H11Protocol)
    assert config.timeout_keep_alive == 77
    assert not config.server_header
    assert not config.access_log
