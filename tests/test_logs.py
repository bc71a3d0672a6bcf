"""Log lines on stderr: their two forms, and what is left out."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from server import logs
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
