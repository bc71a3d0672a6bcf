"""Log lines on stderr: their two forms, and what is left out."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server import logs
from server.errors import InvalidRequest
from tests.raw_http import connected, head, read_answer
from tests.serving import ask, live, rig
from tests.test_transport_bytes import JDK_HEADERS


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Logging is global: leave it as it was found."""
    loggers = [logging.getLogger(), logging.getLogger("uvicorn.error")]
    before = [(one, one.handlers[:], one.filters[:], one.level) for one in loggers]
    yield
    for one, handlers, filters, level in before:
        one.handlers[:], one.filters[:] = handlers, filters
        one.setLevel(level)


def test_text_lines_have_time_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("text", "info")
    logging.getLogger("server.any").info("läuft %d", 7)
    logging.getLogger("server.any").debug("too quiet")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(" INFO läuft 7")


def test_json_lines_are_one_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "debug")
    log = logging.getLogger("server.any")
    log.debug('quotes " and\nline ends')
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["message"] == 'quotes " and\nline ends'
    assert (first["level"], first["logger"]) == ("debug", "server.any")
    assert "exception" not in first
    assert "ValueError: broken" in second["exception"]


def test_an_upgrade_that_java_asks_for_with_every_request_leaves_no_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = json.dumps(ask("hello")).encode()
    with live(rig({"hello": "Hi."})) as serving, connected(serving) as connection:
        logs.configure("text", "info")
        connection.sendall(head(len(body), *JDK_HEADERS) + body)
        assert read_answer(connection)[0] == 200
        logging.getLogger("uvicorn.error").warning("Something else.")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if " WARNING " in line] == [lines[-1]]
    assert lines[-1].endswith("Something else.")


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        ("the context is 9 tokens", "the context is 9 tokens"),
        (f"no tool is called {'Grüße'!r} here", "no tool is called '…' here"),
        (f"it's {chr(39)!r}, isn't it", "it's '…', isn't it"),
        ("the tool's {!r} and {!r}".format("a'b", "c\"d'e"), "the tool's '…' and '…'"),
        ("two\nlines\x1b[31m", "two\ufffdlines\ufffd[31m"),
        ("x" * 999, "x" * 300),
    ],
)
def test_a_reason_is_a_line_without_what_clients_wrote(message: str, logged: str) -> None:
    assert logs.reason_of(InvalidRequest(message)) == logged


@given(st.text(), st.text(st.characters(exclude_characters="'\"")))
def test_whatever_is_quoted_is_not_logged(said: str, around: str) -> None:
    secret = f"{said}s3cret{said}"
    assert "s3cret" not in logs.reason_of(InvalidRequest(f"{around} {secret!r} {around}"))


def test_of_a_fault_of_ours_only_its_kind_is_logged() -> None:
    assert logs.reason_of(KeyError("sk-secret")) == "KeyError"
