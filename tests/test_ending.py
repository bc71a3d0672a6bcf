"""Further tokens that end a text, and a least length."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from tests.fakes import EOS, IM_END, IM_START
from tests.replies import answer_to, calls_of, content_of, reason_of
from tests.serving import CHAT, ask, call, rig, started, tool

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])
TOOLS = [tool("get_weather")]
WEATHER = call("get_weather", '{"city": "Porto"}')


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("said", "stops", "shown"),
    [
        ("One two", [ord("t")], "One "),
        ("One two", [ord("w"), ord("t")], "One "),
        ("One two", [ord("O")], None),
        ("One two", [ord("z"), IM_END], "One two"),
        ("One<|im_start|>two", [IM_START], "One"),  # no text has it otherwise
        ("天気", ["気".encode()[0]], "天"),
    ],
)
async def test_a_stop_token_ends_a_text_and_is_no_part_of_it(
    said: str, stops: list[int], shown: str | None, stream: bool
) -> None:
    body = ask("q", stop_token_ids=stops, max_tokens=30)
    reply = await answer_to({"q": said}, body, stream=stream)
    assert content_of(reply) == shown
    assert reason_of(reply) == "stop"


async def test_a_stop_token_ends_the_work_of_the_model() -> None:
    made = rig({"q": "One two" + " three" * 50})
    async with started(made) as client:
        reply = (await client.post(CHAT, json=ask("q", stop_token_ids=[ord("t")]))).json()
    assert reply["usage"]["completion_tokens"] == len("One t")


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_a_stop_token_does_not_touch_a_call(choice: str, stream: bool) -> None:
    stops = [ord(one) for one in 'Po"}']
    body = ask("weather", tools=TOOLS, tool_choice=choice, stop_token_ids=stops)
    reply = await answer_to({"weather": WEATHER}, body, stream=stream)
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]


async def test_a_stop_token_does_not_touch_json() -> None:
    form = {"type": "json_object", "schema": {"properties": {"a": {"const": 1}}, "required": ["a"]}}
    body = ask("q", response_format=form, stop_token_ids=[ord("a"), ord("}")])
    assert content_of(await answer_to({"q": "x"}, body)) == '{"a": 1}'


async def test_a_stop_token_has_no_log_probability() -> None:
    body = ask("q", stop_token_ids=[ord("t")], logprobs=True)
    reply = await answer_to({"q": "One two"}, body)
    entries = reply["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == list("One ")


async def test_a_token_that_the_model_does_not_have_is_refused() -> None:
    async with started(rig({})) as client:
        answer = await client.post(CHAT, json=ask("q", stop_token_ids=[999_999]))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stop_token_ids"


@PLAIN_AND_STREAMED
async def test_a_text_has_at_least_so_many_tokens(stream: bool) -> None:
    for least in (1, 4, 9, 25):
        body = ask("q", min_tokens=least, max_tokens=40)
        reply = await answer_to({"q": "Four"}, body, stream=stream)
        assert reply["usage"]["completion_tokens"] == max(least, 4)
        assert (content_of(reply) or "").startswith("Four")
        assert reason_of(reply) == "stop"


async def test_stop_tokens_wait_for_the_least_length() -> None:
    body = ask("q", min_tokens=6, stop_token_ids=[ord("b")], max_tokens=30)
    reply = await answer_to({"q": "abcabcabc"}, body)
    text = content_of(reply) or ""
    assert len(text) >= 6
    assert "b" not in text[6:]


@PLAIN_AND_STREAMED
async def test_an_answer_that_ignores_its_end_runs_to_the_limit(stream: bool) -> None:
    body = ask("q", ignore_eos=True, max_tokens=30)
    reply = await answer_to({"q": "Four"}, body, stream=stream)
    assert reply["usage"]["completion_tokens"] == 30
    assert reason_of(reply) == "length"


async def test_a_call_ends_when_it_is_complete_however_long_an_answer_shall_be() -> None:
    for fields in ({"min_tokens": 200}, {"ignore_eos": True}):
        body = ask("weather", tools=TOOLS, max_tokens=300, parallel_tool_calls=False, **fields)
        reply = await answer_to({"weather": WEATHER}, body)
        assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
        assert reason_of(reply) == "tool_calls"


@pytest.mark.parametrize(("goes_on", "said"), [(None, " there."), (False, "Anew.")])
async def test_a_last_message_is_gone_on_with_or_not(goes_on: bool | None, said: str) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "Hello"}]
    body: dict[str, Any] = {**ask("q"), "messages": messages, "continue_final_message": goes_on}
    made = rig({"q": "Hello there.", "Hello": "Anew."})
    async with started(made) as client:
        reply = (await client.post(CHAT, json=body)).json()
    assert content_of(reply) == said
    ChatCompletion.model_validate(reply)


def test_the_ends_of_a_model_are_two_at_least() -> None:
    """So that one of them could not stand for all in the tests above."""
    assert IM_END != EOS
