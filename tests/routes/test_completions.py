"""`/v1/completions` with a scripted model: raw prompts, choices, constraint, streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from server.engine.runner import DecodeFailed
from tests.fakes import IM_END, OPENING, Gate
from tests.serving import MODEL, parse_stream, rig, soon, started
from tests.test_app import error_of

PATH = "/v1/completions"
SAYS = {"hello": "Hi there.", "bye": "See you."}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def prompt(text: str) -> str:
    """A raw prompt that the scripted model answers."""
    return text + OPENING


def body(*texts: str, **fields: Any) -> dict[str, Any]:
    prompts = [prompt(text) for text in texts]
    return {"model": MODEL, "prompt": prompts[0] if len(prompts) == 1 else prompts, **fields}


async def answer(asked: dict[str, Any], **values: Any) -> httpx.Response:
    async with started(rig(SAYS, **values)) as client:
        return await client.post(PATH, json=asked)


def folded(text: str) -> dict[int, tuple[str, str | None]]:
    """Text and finish reason of each choice of a stream."""
    *chunks, done = parse_stream(text)
    assert done.data == "[DONE]"
    told: dict[int, tuple[str, str | None]] = {}
    for chunk in chunks:
        assert chunk.data["object"] == "text_completion"
        for choice in chunk.data["choices"]:
            before, end = told.get(choice["index"], ("", None))
            assert end is None, "nothing follows the end"
            told[choice["index"]] = (before + choice["text"], choice["finish_reason"])
    return told


async def test_the_answer_goes_on_from_the_raw_prompt() -> None:
    made = rig(SAYS)
    async with started(made) as client:
        reply = (await client.post(PATH, json=body("hello"))).json()
    assert reply["choices"] == [
        {"index": 0, "text": "Hi there.", "logprobs": None, "finish_reason": "stop"}
    ]
    assert reply["object"] == "text_completion"
    assert reply["model"] == MODEL
    assert reply["id"].startswith("cmpl-")
    vocabulary = made.runner.vocabulary
    assert reply["usage"]["prompt_tokens"] == len(vocabulary.encode_prompt(prompt("hello"), "\0"))
    assert reply["usage"]["completion_tokens"] == len("Hi there.")
    assert reply["usage"]["total_tokens"] == sum(
        reply["usage"][name] for name in ("prompt_tokens", "completion_tokens")
    )


async def test_special_tokens_are_read_in_a_prompt_unless_it_says_otherwise() -> None:
    service = rig({}).parts.completion
    assert service.encode("<|im_end|>x", path="prompt", parse_special=True) == [IM_END, ord("x")]
    as_text = service.encode("<|im_end|>x", path="prompt", parse_special=False)
    assert bytes(as_text) == b"<|im_end|>x"
    assert (await answer(body("hello", parse_special=True))).status_code == 200


async def test_token_ids_are_a_prompt_as_they_are() -> None:
    made = rig(SAYS)
    ids = made.runner.vocabulary.encode_prompt(prompt("hello"), "\0")
    async with started(made) as client:
        one = (await client.post(PATH, json={"model": MODEL, "prompt": ids})).json()
        two = (await client.post(PATH, json={"model": MODEL, "prompt": [ids, ids]})).json()
    assert one["choices"][0]["text"] == "Hi there."
    assert [choice["text"] for choice in two["choices"]] == ["Hi there."] * 2


async def test_choices_are_in_the_order_of_the_prompts_n_of_each() -> None:
    plain = (await answer(body("hello", "bye", n=2))).json()
    streamed = (await answer(body("hello", "bye", n=2, stream=True))).text
    texts = ["Hi there."] * 2 + ["See you."] * 2
    assert [choice["index"] for choice in plain["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in plain["choices"]] == texts
    assert folded(streamed) == {i: (text, "stop") for i, text in enumerate(texts)}
    single = (await answer(body("hello", "bye"))).json()["usage"]
    assert plain["usage"]["prompt_tokens"] == single["prompt_tokens"]
    assert plain["usage"]["completion_tokens"] == 2 * single["completion_tokens"]


async def test_the_choices_of_a_seed_differ_and_come_again() -> None:
    asked = body("hello", n=3, seed=7, temperature=2)
    first = [choice["text"] for choice in (await answer(asked)).json()["choices"]]
    again = [choice["text"] for choice in (await answer(asked)).json()["choices"]]
    assert first == again
    assert len(set(first)) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_echo_gives_the_prompt_back_before_the_answer(stream: bool) -> None:
    reply = await answer(body("hello", echo=True, stream=stream))
    told = folded(reply.text)[0][0] if stream else reply.json()["choices"][0]["text"]
    assert told == prompt("hello") + "Hi there."


@pytest.mark.parametrize("stream", [False, True])
async def test_stop_and_limit_end_an_answer_as_they_do_everywhere(stream: bool) -> None:
    stopped = await answer(body("hello", stop=[" the"], stream=stream))
    cut = await answer(body("hello", max_tokens=4, stream=stream))
    if stream:
        assert folded(stopped.text) == {0: ("Hi", "stop")}
        assert folded(cut.text) == {0: ("Hi t", "length")}
    else:
        assert stopped.json()["choices"][0]["text"] == "Hi"
        assert cut.json()["choices"][0] == {
            "index": 0, "text": "Hi t", "logprobs": None, "finish_reason": "length",
        }  # fmt: skip


async def test_tokens_may_end_an_answer_and_the_model_may_be_kept_from_it() -> None:
    stopped = (await answer(body("hello", stop_token_ids=[ord("t")]))).json()
    kept = (await answer(body("bye", ignore_eos=True, max_tokens=12))).json()
    assert stopped["choices"][0]["text"] == "Hi "
    assert kept["choices"][0]["finish_reason"] == "length"
    assert kept["usage"]["completion_tokens"] == 12


async def test_white_space_is_kept() -> None:
    async with started(rig({"hello": "  a \n\n"})) as client:
        reply = (await client.post(PATH, json=body("hello"))).json()
    assert reply["choices"][0]["text"] == "  a \n\n"


async def test_free_text_has_sixteen_tokens_and_json_what_it_needs() -> None:
    long = {"hello": "word " * 10, "point": '{"x": ' + "1" * 20 + "}"}
    wanted = {"type": "json_schema", "json_schema": {"name": "p", "schema": POINT}}
    async with started(rig(long)) as client:
        free = (await client.post(PATH, json=body("hello"))).json()
        held = (await client.post(PATH, json=body("point", response_format=wanted))).json()
    assert free["usage"]["completion_tokens"] == 16
    assert free["choices"][0]["finish_reason"] == "length"
    assert held["choices"][0] == {
        "index": 0, "text": '{"x": ' + "1" * 20 + "}", "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json_schema", "json_schema": {"schema": POINT}},
        {"type": "json_object", "schema": POINT},
    ],
)
async def test_an_answer_satisfies_its_schema_whatever_the_model_wants(wanted: Any) -> None:
    for seed in range(5):
        asked = body("hello", response_format=wanted, temperature=2, seed=seed, max_tokens=300)
        choice = (await answer(asked)).json()["choices"][0]
        if choice["finish_reason"] == "stop":
            Draft202012Validator(POINT).validate(json.loads(choice["text"]))


async def test_a_schema_that_cannot_be_is_refused_where_it_stands() -> None:
    wanted = {"type": "json_object", "schema": {"type": "string", "pattern": "("}}
    reply = await answer(body("hello", response_format=wanted))
    assert reply.status_code == 400
    assert "pattern" in error_of(reply)["message"]


async def test_usage_comes_last_in_a_stream_if_asked_for() -> None:
    asked = body("hello", "bye", stream=True, stream_options={"include_usage": True})
    *chunks, done = parse_stream((await answer(asked)).text)
    assert done.data == "[DONE]"
    assert [chunk.data for chunk in chunks if "usage" in chunk.data] == [chunks[-1].data]
    assert chunks[-1].data["choices"] == []
    assert chunks[-1].data["usage"]["completion_tokens"] == len("Hi there.See you.")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"logprobs": 0}, "logprobs"),
        ({"logprobs": 5}, "logprobs"),
        ({"guided_json": {"pattern": "("}}, "guided_json"),
        ({"guided_regex": "a+"}, "guided_regex"),
        ({"mirostat": 2}, "mirostat"),
        ({"skip_special_tokens": False}, "skip_special_tokens"),
        ({"min_tokens": 99, "max_tokens": 9}, "min_tokens"),
        ({"ignore_eos": True, "response_format": {"type": "json_object"}}, "ignore_eos"),
        ({"stop_token_ids": [99999]}, "stop_token_ids"),
        ({"grammar": "root ::= x"}, "grammar"),
        ({"prompt": []}, "prompt"),
        ({"prompt": {}}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [1, "x"]}, "prompt"),
        ({"prompt": [[1], "x", [True]]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [99999]}, "prompt"),
        ({"prompt": ["a", [99999]]}, "prompt[1]"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt[1]"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"temperature": 9}, "temperature"),
        ({"logit_bias": {"99999": 1}}, "logit_bias"),
        ({"response_format": {"type": "xml"}}, "response_format"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(fields: Any, param: str) -> None:
    made = rig({})
    async with started(made) as client:
        reply = await client.post(PATH, json={**body("hello"), **fields})
    assert reply.status_code == 400
    assert error_of(reply)["param"] == param
    assert made.runner.passes == []


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 2}, "best_of"),
        ({"n": 2, "best_of": 3}, "best_of"),
        ({"n": 129}, "n"),
        ({"n": 65, "prompt": ["a", "b"]}, "n"),
    ],
)
async def test_only_all_answers_are_returned(fields: Any, param: str) -> None:
    reply = await answer({**body("hello"), **fields})
    assert reply.status_code == 400
    assert error_of(reply)["param"] == param


async def test_best_of_may_repeat_n() -> None:
    reply = await answer(body("hello", n=2, best_of=2, suffix="", logprobs=None))
    assert len(reply.json()["choices"]) == 2


async def test_a_prompt_over_the_context_is_400_with_both_numbers() -> None:
    reply = await answer(body("x" * 200), context_length=100)
    error = error_of(reply)
    assert (reply.status_code, error["code"]) == (400, "context_length_exceeded")
    assert "100" in error["message"]


async def test_an_unknown_model_is_404() -> None:
    reply = await answer({**body("hello"), "model": "nobody"})
    assert (reply.status_code, error_of(reply)["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failed_pass_is_an_error_and_leaves_nothing_running(stream: bool) -> None:
    made = rig(SAYS)
    async with started(made) as client:
        made.runner.fail_next(DecodeFailed())
        reply = await client.post(PATH, json=body("hello", "bye", stream=stream))
        await soon(lambda: made.load == (0, 0), "all choices have ended")
        after = (await client.post(PATH, json=body("hello"))).json()
    if stream:
        assert parse_stream(reply.text)[-1].event == "error"
    else:
        assert reply.status_code == 500
        error_of(reply)
    assert after["choices"][0]["text"] == "Hi there."


async def test_choices_that_do_not_fit_into_the_queue_are_all_refused() -> None:
    gate = Gate()
    made = rig({"hello": "Hi. " * 100}, gate=gate, max_sequences=1, queue_length=1)
    async with started(made) as client:
        never = await client.post(PATH, json=body("hello", n=3))
        first = asyncio.create_task(client.post(PATH, json=body("hello")))
        await soon(lambda: made.load == (1, 0), "it runs")
        asked = asyncio.create_task(client.post(PATH, json=body("hello", n=2)))
        for passes in range(100):
            gate.allow(passes)
            await asyncio.wait({asked}, timeout=0.02)
            if asked.done():
                break
        gate.open()
        reply = await asked
        assert (await first).status_code == 200
        await soon(lambda: made.load == (0, 0), "none of them is left")
    assert never.status_code == 400
    assert error_of(never)["param"] == "n"
    assert reply.status_code == 429
    error_of(reply)
