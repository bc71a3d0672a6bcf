"""Routes, keys, the error envelope, logs: what every request meets. Without weights."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from server.chat import ChatService
from server.engine.runner import DecodeFailed
from server.output import OutputParser
from tests.fakes import Gate
from tests.serving import CHAT, MODEL, ask, call, parse_stream, rig, soon, started, tool

SAYS = {"hello": "Hi."}


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, held to OpenAI's envelope."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in error["message"]
    assert isinstance(error["type"], str)
    assert isinstance(error["param"], str | None)
    assert isinstance(error["code"], str | None)
    return error


# Routes


async def test_health_says_what_runs() -> None:
    async with started(rig(SAYS)) as client:
        answer = await client.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "model": MODEL, "running": 0, "waiting": 0}


async def test_models_are_listed_under_all_their_names_the_main_one_first() -> None:
    async with started(rig(SAYS, alias=("gpt-4o", "org/other"))) as client:
        listed = (await client.get("/v1/models")).json()
        one = await client.get("/v1/models/org/other")
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == [MODEL, "gpt-4o", "org/other"]
    assert one.json() == listed["data"][2]
    assert set(one.json()) == {"id", "object", "created", "owned_by"}


async def test_an_alias_is_answered_under_its_own_name() -> None:
    async with started(rig(SAYS, alias=("gpt-4o",))) as client:
        answer = await client.post(CHAT, json={**ask("hello"), "model": "gpt-4o"})
    assert answer.json()["model"] == "gpt-4o"


@pytest.mark.parametrize("path", ["/v1/models/nobody", "/v1/models/nobody/at-all"])
async def test_an_unknown_model_is_404(path: str) -> None:
    async with started(rig(SAYS)) as client:
        shown = await client.get(path)
        asked = await client.post(CHAT, json={**ask("hello"), "model": "nobody"})
    for answer in (shown, asked):
        assert answer.status_code == 404
        error = error_of(answer)
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert "nobody" in error["message"]
        assert MODEL in error["message"]


# Keys


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer sk-one"},
        {"authorization": "bearer   sk-two "},
        {"x-api-key": "sk-two"},
        {"authorization": "Basic dXNlcjpwYXNz", "x-api-key": "sk-one"},
        {"authorization": "Bearer schlüssel".encode()},
    ],
)
async def test_any_of_the_keys_opens(headers: dict[str, Any]) -> None:
    async with started(rig(SAYS, api_key=("sk-one", "sk-two", "schlüssel"))) as client:
        answers = [
            await client.post(CHAT, json=ask("hello"), headers=headers),
            await client.get("/v1/models", headers=headers),
            await client.get(f"/v1/models/{MODEL}", headers=headers),
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": ""},
        {"authorization": "sk-one"},
        {"authorization": "Basic sk-one"},
        {"authorization": "Bearer sk-on"},
        {"authorization": "Bearer sk-onee"},
        {"authorization": "Bearer SK-ONE"},
        {"authorization": "Bearer sk-one sk-one"},
        {"authorization": "Bearer sk-one\xa0".encode("latin-1")},
        {"authorization": "Bearer " + "sk-one" * 1000},
        {"authorization": "Bearer wrong", "x-api-key": "sk-one"},
        {"authorization": "Bearer \xff\xfe".encode("latin-1")},
        {"api-key": "sk-one"},
        {"cookie": "authorization=Bearer sk-one"},
    ],
)
async def test_without_a_right_key_nothing_opens(headers: dict[str, Any]) -> None:
    made = rig(SAYS, api_key=("sk-one",))
    async with started(made) as client:
        answers = [
            await client.post(CHAT, content=b"not even JSON", headers=headers),
            await client.post(CHAT, json=ask("hello", stream=True), headers=headers),
            await client.get("/v1/models", headers=headers),
            await client.get("/v1/models/nobody", headers=headers),
        ]
        assert (await client.get("/health")).status_code == 200
    for answer in answers:
        assert answer.status_code == 401
        error = error_of(answer)
        assert error["code"] == "invalid_api_key"
        assert "sk-one" not in answer.text
    assert made.runner.passes == []


async def test_a_header_with_a_key_is_there_once_or_nothing_opens() -> None:
    async with started(rig(SAYS, api_key=("sk-one",))) as client:
        for name, value in (("authorization", "Bearer sk-one"), ("x-api-key", "sk-one")):
            answer = await client.get("/v1/models", headers=[(name, value), (name, value)])
            assert answer.status_code == 401
            assert name in error_of(answer)["message"]


async def test_where_there_is_no_key_any_is_accepted() -> None:
    async with started(rig(SAYS)) as client:
        answer = await client.get("/v1/models", headers={"authorization": "Bearer whatever"})
    assert answer.status_code == 200


# Bodies


@pytest.mark.parametrize(
    "body",
    [b"", b"  ", b"{", b"nope", b"[]", b"3", b"null", b"\xff\xfe{}", b'{"a": NaN}', b"[" * 9999],
)
async def test_a_body_that_is_no_json_object_is_400(body: bytes) -> None:
    async with started(rig(SAYS)) as client:
        answer = await client.post(CHAT, content=body)
    assert answer.status_code == 400
    assert error_of(answer)["type"] == "invalid_request_error"


async def test_the_content_type_does_not_matter() -> None:
    async with started(rig(SAYS)) as client:
        body = json.dumps(ask("hello"), indent=1).encode()
        answer = await client.post(CHAT, content=body, headers={"content-type": "text/plain"})
    assert answer.status_code == 200


async def test_a_body_over_the_limit_is_413_and_one_at_the_limit_is_read() -> None:
    def of_size(size: int) -> bytes:
        body = json.dumps(ask("hello")).encode()
        return body + b" " * (size - len(body))

    async with started(rig(SAYS, max_body_bytes=2048)) as client:
        assert (await client.post(CHAT, content=of_size(2048))).status_code == 200
        answer = await client.post(CHAT, content=of_size(2049))
    assert answer.status_code == 413
    error = error_of(answer)
    assert error["code"] == "request_too_large"
    assert "2048" in error["message"]


@given(st.binary(max_size=300))
@hypothesis_settings(max_examples=60, deadline=None)
async def test_no_bytes_make_the_server_fail(body: bytes) -> None:
    async with started(rig({})) as client:
        answer = await client.post(CHAT, content=body)
    assert answer.status_code == 400
    error_of(answer)


# Errors


async def test_a_full_queue_is_429_and_says_when_to_come_back() -> None:
    gate = Gate()
    made = rig({"hello": "Hi. " * 100}, gate=gate, max_sequences=1, queue_length=1)
    async with started(made) as client:
        first = asyncio.create_task(client.post(CHAT, json=ask("hello")))
        await soon(lambda: made.load == (1, 0), "the first one runs")
        second = asyncio.create_task(client.post(CHAT, json=ask("hello")))
        third = asyncio.create_task(client.post(CHAT, json=ask("hello", stream=True)))
        for passes in range(100):
            gate.allow(passes)
            await asyncio.wait({second, third}, timeout=0.02, return_when="FIRST_COMPLETED")
            if second.done() or third.done():
                break
        gate.open()
        answers = [await first, await second, await third]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) == 1
    assert refused[0].status_code == 429
    assert int(refused[0].headers["retry-after"]) >= 1
    assert error_of(refused[0])["type"] == "rate_limit_error"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_over_the_context_is_400_with_both_numbers(stream: bool) -> None:
    made = rig(SAYS, context_length=100)
    async with started(made) as client:
        answer = await client.post(CHAT, json=ask("hello" + "x" * 200, stream=stream))
    assert answer.status_code == 400
    error = error_of(answer)
    assert error["code"] == "context_length_exceeded"
    assert "100" in error["message"]
    prompt = f"<|im_start|>user\nhello{'x' * 200}<|im_end|>\n<|im_start|>assistant\n"
    tokens = len(made.runner.vocabulary.encode_prompt(prompt, "\0"))
    assert str(tokens) in error["message"]
    assert made.runner.passes == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_before_the_first_event_is_a_500_without_its_words(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("secret path /home/me")

    monkeypatch.setattr(ChatService, "start_all", fails)
    async with started(rig(SAYS)) as client:
        answer = await client.post(CHAT, json=ask("hello", stream=stream))
        assert (await client.get("/health")).status_code == 200
    assert answer.status_code == 500
    error = error_of(answer)
    assert error["type"] == "server_error"
    assert "secret" not in answer.text


async def test_a_failed_forward_pass_is_an_error_and_the_next_request_is_answered() -> None:
    made = rig(SAYS)
    async with started(made) as client:
        made.runner.fail_next(DecodeFailed())
        plain = await client.post(CHAT, json=ask("hello"))
        made.runner.fail_next(DecodeFailed())
        streamed = await client.post(CHAT, json=ask("hello", stream=True))
        after = await client.post(CHAT, json=ask("hello"))
    assert plain.status_code == 500
    error_of(plain)
    assert streamed.status_code == 200
    last = parse_stream(streamed.text)[-1]
    assert last.event == "error"
    assert set(last.data) == {"error"}
    assert "[DONE]" not in streamed.text
    assert after.json()["choices"][0]["message"]["content"] == "Hi."


async def test_an_unforeseen_fault_inside_a_stream_is_an_error_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(OutputParser, "feed", fails)
    made = rig(SAYS)
    async with started(made) as client:
        answer = await client.post(CHAT, json=ask("hello", stream=True))
        await soon(lambda: made.load == (0, 0), "the generation has ended")
    role, error = parse_stream(answer.text)
    assert role.data["choices"][0]["delta"] == {"role": "assistant"}
    assert error.event == "error"
    assert error.data["error"]["type"] == "server_error"
    assert "secret" not in answer.text


# Web pages


async def test_without_setting_no_web_page_may_read_an_answer() -> None:
    async with started(rig(SAYS)) as client:
        answer = await client.get("/v1/models", headers={"origin": "https://app.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_web_page_of_the_setting_may_call_and_no_other() -> None:
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-own"}
    async with started(rig(SAYS, cors_origin=("https://app.example",))) as client:
        ours = {"origin": "https://app.example"}
        theirs = {"origin": "https://evil.example"}
        preflight = await client.options(CHAT, headers={**ours, **asks})
        answer = await client.post(CHAT, json=ask("hello"), headers=ours)
        refused = await client.post(CHAT, content=b"{", headers=ours)
        other = await client.options(CHAT, headers={**theirs, **asks})
        foreign = await client.post(CHAT, json=ask("hello"), headers=theirs)
    for allowed in (preflight, answer, refused):
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert preflight.status_code == 200
    assert other.status_code == 400
    assert "access-control-allow-origin" not in other.headers
    assert "access-control-allow-origin" not in foreign.headers


# Logs


async def test_logs_hold_no_keys_and_no_text_of_users(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = {"authorization": "Bearer sk-planted"}
    wrong = {"authorization": "Bearer sk-guessed"}
    says = {"marmalade": "treacle"}
    async with started(rig(says, api_key=("sk-planted",))) as client:
        await client.post(CHAT, json=ask("marmalade"), headers=key)
        await client.post(CHAT, json=ask("marmalade", stream=True), headers=key)
        await client.post(CHAT, json=ask("marmalade"), headers=wrong)
        await client.post(CHAT, json=ask("marmalade", n=7), headers=key)
        await client.post(CHAT, content=b'{"marmalade"', headers=key)
        await client.post(CHAT, json=ask("marmalade", tool_choice="treacle"), headers=key)
        await client.post(CHAT, json=ask("marmalade" * 999), headers=key)
    lines = "\n".join(record.getMessage() for record in caplog.records)
    assert "chat end=stop" in lines
    assert "refused status=401" in lines
    for secret in ("sk-planted", "sk-guessed", "marmalade", "treacle"):
        assert secret not in lines


async def test_a_refusal_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    big = {"type": "object", "properties": {"a": {"minimum": "one\ntwo"}}}
    options = {"chat_template_kwargs": {"a\nrefused status=200": 1}}
    async with started(rig(SAYS)) as client:
        await client.post(CHAT, json=ask("hello", temperature=9))
        await client.post(CHAT, json=ask("hello", tools=[tool("look", big)]))
        await client.post(CHAT, json=ask("hello", **options))
        await client.get("/v1/nothing")
        await client.get(CHAT)
        await client.get("/health", headers={"host": "evil.example"})
    lines = [record.getMessage() for record in caplog.records if record.name == "server.logs"]
    for line, status, words in zip(
        lines,
        (400, 400, 400, 404, 405, 403),
        (
            "temperature",
            "must be a number",
            "cannot be set",
            "there is no route",
            "only POST",
            "host",
        ),
        strict=True,
    ):
        assert line.startswith(f"refused status={status} code=")
        assert words in line.partition("reason=")[2]
        assert "\n" not in line


async def test_prompts_and_answers_are_logged_where_switched_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    said = call("get_weather", '{"city": "Porto"}')
    async with started(rig({"weather": said}, log_prompts=True)) as client:
        await client.post(CHAT, json=ask("weather", tools=[tool("get_weather")]))
    messages = [record.getMessage() for record in caplog.records if record.name == "server.chat"]
    assert any(text.startswith("prompt: <|im_start|>system") for text in messages)
    assert f"answer: {said}" in messages
