"""What a browser may be made to do by pages of strangers: nothing."""

from __future__ import annotations

from typing import Any

import pytest

from server.origins import forbidden
from tests.serving import CHAT, ask, rig, settings, started
from tests.test_app import error_of

OURS = "127.0.0.1:8080"


def code(host: str = OURS, origin: str | None = None, /, **values: Any) -> str | None:
    headers = {"host": host} if origin is None else {"host": host, "origin": origin}
    error = forbidden(headers, settings(**values))
    return error.code if error else None


@pytest.mark.parametrize(
    "host",
    (
        "127.0.0.1 127.0.0.1:8080 localhost:8080 LOCALHOST localhost. [::1]:8080 [::1] mybox"
        " api.localhost:80 host.docker.internal:8080 192.168.1.7:8080"
    ).split(),
)
def test_names_that_no_stranger_can_own_are_known(host: str) -> None:
    assert code(host) is None


@pytest.mark.parametrize(
    "host",
    (
        "evil.example evil.example:8080 evil.example. EVIL.EXAMPLE evil.example:x [::1 1.2.3.4.5"
        " 127.0.0.1.evil.example localhost.evil.example"
    ).split(),
)
def test_other_names_are_refused_where_no_key_is_asked_for(host: str) -> None:
    assert code(host) == "host_not_allowed"
    assert code(host, api_key=("sk-one",)) is None
    assert code(host, host="0.0.0.0") is None


def test_a_name_may_be_allowed() -> None:
    assert code("box.example:8080", allowed_host=("box.example",)) is None
    assert code("other.example", allowed_host=("box.example",)) == "host_not_allowed"


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8080", OURS),
        ("http://localhost:3000", OURS),
        ("http://[::1]:3000", OURS),
        ("https://app.localhost", OURS),
        ("http://box.example:8080", "box.example:8080"),
        ("vscode-webview://0abc", OURS),
        ("chrome-extension://abcdef", OURS),
    ],
)
def test_pages_of_this_machine_may_call(origin: str, host: str) -> None:
    assert code(host, origin, allowed_host=("box.example",)) is None


@pytest.mark.parametrize(
    "origin",
    (
        "https://evil.example http://evil.example:8080 HTTPS://evil.example null http://["
        " http://127.0.0.1.evil.example http://localhost.evil.example"
    ).split(),
)
def test_other_pages_may_not_unless_the_setting_says_so(origin: str) -> None:
    assert code(OURS, origin) == "origin_not_allowed"
    assert code(OURS, origin, cors_origin=(origin,)) is None
    assert code(OURS, origin, cors_origin=("*",)) is None
    assert code(OURS, origin, api_key=("sk-one",)) is None


async def test_a_foreign_page_reaches_no_route() -> None:
    made = rig({})
    async with started(made) as client:
        answers = [
            await client.post(CHAT, json=ask("hello"), headers={"origin": "https://evil.example"}),
            await client.post(CHAT, json=ask("hello"), headers={"host": "evil.example"}),
            await client.get("/health", headers={"host": "evil.example"}),
            await client.get("/openapi.json", headers={"host": "evil.example"}),
        ]
    for answer in answers:
        assert answer.status_code == 403
        assert error_of(answer)["type"] == "permission_error"
    assert made.runner.passes == []
