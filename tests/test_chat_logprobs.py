"""`logprobs` and `top_logprobs`: every token of an answer, with what the model thought of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from server.engine.logprobs import score
from server.wire.chat import parse_chat_request
from tests.replies import answer_to, calls_of, content_of
from tests.serving import CHAT, ask, call, parse_stream, rig, started, tool

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
WEATHER = call("get_weather", '{"city": "Porto"}')
TOOLS = [tool("get_weather")]
UNIQUE = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}},
    "required": ["a"],
}


def entries_of(reply: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reply["choices"][0]["logprobs"]["content"]
    return found


def said(reply: dict[str, Any]) -> bytes:
    """What the tokens add up to."""
    return b"".join(bytes(entry["bytes"]) for entry in entries_of(reply))


@PLAIN_AND_STREAMED
async def test_the_tokens_of_a_text_add_up_to_it(stream: bool) -> None:
    text = "Grüße, 天気 ✓ "
    body = ask("q", logprobs=True, top_logprobs=3)
    reply = await answer_to({"q": text}, body, stream=stream)
    assert content_of(reply) == text
    assert said(reply).decode() == text
    assert len(entries_of(reply)) == reply["usage"]["completion_tokens"]
    for entry in entries_of(reply):
        assert len(entry["top_logprobs"]) == 3
        assert entry["top_logprobs"][0]["bytes"] == entry["bytes"]
        assert bytes(entry["bytes"]).decode("utf-8", "replace") == entry["token"]
        falling = [one["logprob"] for one in entry["top_logprobs"]]
        assert sorted(falling, reverse=True) == falling
        assert falling[0] == entry["logprob"] < 0


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_a_call_has_them_for_all_its_tokens(choice: str, stream: bool) -> None:
    body = ask("weather", logprobs=True, tools=TOOLS, tool_choice=choice)
    reply = await answer_to({"weather": WEATHER}, body, stream=stream)
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
    assert said(reply).decode().startswith(WEATHER)
    assert len(entries_of(reply)) == reply["usage"]["completion_tokens"]
    assert all(entry["top_logprobs"] == [] for entry in entries_of(reply))


async def test_they_are_the_models_own_also_of_what_is_forced() -> None:
    """Recomputed from the prompt and the tokens so far, one after another."""
    body = ask("weather", logprobs=True, top_logprobs=2, tools=TOOLS, tool_choice="required")
    body |= {"logit_bias": {"80": 5}, "temperature": 0.9, "seed": 3, "frequency_penalty": 0.5}
    made = rig({"weather": "I would rather say something else."})
    async with started(made) as client:
        request = parse_chat_request(json.dumps(body).encode(), made.parts.settings)
        tokens = made.parts.chat.prompt(request)
        reply = (await client.post(CHAT, json={**body, "max_tokens": 60})).json()
    pieces = made.runner.vocabulary.pieces
    for entry in entries_of(reply):
        token = pieces.index(bytes(entry["bytes"]))
        wanted = score(made.runner.prefer(tokens), token, 2)
        assert entry["logprob"] == wanted.chosen.logprob
        assert [bytes(one["bytes"]) for one in entry["top_logprobs"]] == [
            pieces[one.token] for one in wanted.top
        ]
        tokens.append(token)
    # What it was made to say is not what it wanted to.
    assert sum(entry["logprob"] < -3 for entry in entries_of(reply)) > 20


@PLAIN_AND_STREAMED
async def test_what_was_taken_back_is_not_there(stream: bool) -> None:
    tools = [tool("put", UNIQUE)]
    body = ask("q", logprobs=True, tools=tools, tool_choice="required", parallel_tool_calls=False)
    reply = await answer_to({"q": call("put", '{"a": [1, 1]}')}, body, stream=stream)
    [(_, arguments)] = calls_of(reply)
    assert arguments != {"a": [1, 1]}
    written = reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert said(reply).decode() == call("put", written)
    assert len(entries_of(reply)) == reply["usage"]["completion_tokens"]


@PLAIN_AND_STREAMED
async def test_a_stop_text_is_not_there(stream: bool) -> None:
    body = ask("q", logprobs=True, stop=["END"])
    reply = await answer_to({"q": "One E two END three"}, body, stream=stream)
    assert said(reply) == b"One E two "


async def test_a_chunk_has_those_of_its_own_text() -> None:
    async with started(rig({"q": "天 Ende END"})) as client:
        body = ask("q", logprobs=True, stop="END", stream=True)
        *chunks, _ = parse_stream((await client.post(CHAT, json=body)).text)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.data, strict=True)
        [choice] = chunk.data["choices"]
        entries = choice.get("logprobs", {"content": []})["content"]
        assert b"".join(bytes(entry["bytes"]) for entry in entries).decode() == choice["delta"].get(
            "content", ""
        )


async def test_each_choice_has_its_own() -> None:
    body = ask("q", n=2, logprobs=True, temperature=1.9, seed=1, max_tokens=10)
    reply = await answer_to({"q": "Once upon a time"}, body)
    ChatCompletion.model_validate(reply, strict=True)
    for choice in reply["choices"]:
        one = {"choices": [choice]}
        # Of a text that is cut in the middle of a character, that one is not shown.
        text = said(one).decode("utf-8", "replace")
        assert text.removesuffix("\ufffd") == (content_of(one) or "").removesuffix("\ufffd")


async def test_without_asking_there_are_none() -> None:
    for fields in ({}, {"logprobs": False}, {"logprobs": False, "top_logprobs": 0}):
        reply = await answer_to({"q": "Hi."}, ask("q", **fields))
        assert "logprobs" not in reply["choices"][0]


@given(
    said=st.lists(
        st.sampled_from([WEATHER, "<tool_call>", "\n", "```json\n", "Hello", "天", " ", "END"]),
        max_size=4,
    ).map("".join),
    choice=st.sampled_from(["auto", "required", "none"]),
    limit=st.integers(1, 80),
)
@hypothesis_settings(max_examples=12, deadline=None)
async def test_streamed_they_are_those_of_the_plain_answer(
    said: str, choice: str, limit: int
) -> None:
    body = ask("q", tools=TOOLS, tool_choice=choice, max_tokens=limit, stop="END", logprobs=True)
    plain = await answer_to({"q": said}, body)
    streamed = await answer_to({"q": said}, body, stream=True)
    entries = streamed["choices"][0].get("logprobs", {"content": []})["content"]
    assert entries == entries_of(plain)
    if "END" not in said:
        assert len(entries) == plain["usage"]["completion_tokens"]
