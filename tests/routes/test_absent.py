"""Routes and methods that are not there, and HEAD, which is there wherever GET is."""

from __future__ import annotations

import pytest

from tests.serving import CHAT, MODEL, live, rig, started
from tests.test_app import SAYS, error_of


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/embeddings", "/v1/chat/completions/x", "/v2/a"])
async def test_an_unknown_route_is_404(path: str) -> None:
    async with started(rig(SAYS)) as client:
        for answer in (await client.get(path), await client.post(path, json={})):
            assert answer.status_code == 404
            error_of(answer)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/chat/complete", "POST /v1/chat/completions, "),
        ("/chat/completions", "there is no /chat/completions, but /v1/chat/completions: "),
        ("/v1/v1/responses", "but /v1/responses: "),
        ("/v1/embeddings", "embeddings are not supported"),
        ("/" + "x" * 999, "there are GET /health, "),
    ],
)
async def test_an_unknown_route_is_told_what_there_is(path: str, said: str) -> None:
    async with started(rig(SAYS)) as client:
        assert said in error_of(await client.post(path, json={}))["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, {"POST"}),
        ("DELETE", CHAT, {"POST"}),
        ("POST", "/v1/models", {"GET", "HEAD"}),
    ],
)
async def test_a_wrong_method_is_405_and_says_the_right_one(
    method: str, path: str, allowed: set[str]
) -> None:
    async with started(rig(SAYS)) as client:
        answer = await client.request(method, path)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed
    assert answer.headers["allow"] in error_of(answer)["message"]


def test_head_is_answered_as_get_without_the_body() -> None:
    paths = ["/health", "/metrics", "/v1/models", f"/v1/models/{MODEL}", "/openapi.json"]
    with live(rig(SAYS)) as serving, serving.client() as client:
        for path in paths:
            head, get = client.head(path), client.get(path)
            assert (head.status_code, head.content) == (200, b""), path
            assert head.headers["content-type"] == get.headers["content-type"]
        assert client.head("/v1/models/nobody").status_code == 404
