"""`/tokenize` and `/detokenize`, as llama-server and vLLM have them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import CHAT, MODEL, ask, rig, started, tool
from tests.test_app import error_of


async def ask_for(path: str, asked: dict[str, Any]) -> Any:
    async with started(rig({})) as client:
        reply = await client.post(path, json=asked)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
@pytest.mark.parametrize("name", ["content", "prompt"])
async def test_a_text_is_split_into_tokens(path: str, name: str) -> None:
    assert await ask_for(path, {name: "hé"}) == {
        "tokens": [104, 195, 169],
        "count": 3,
        "max_model_len": 4096,
    }


async def test_pieces_are_texts_or_bytes() -> None:
    told = await ask_for("/tokenize", {"content": "h<|im_end|>é", "with_pieces": True})
    assert told["tokens"] == [
        {"id": 104, "piece": "h"},
        {"id": 257, "piece": "<|im_end|>"},
        {"id": 195, "piece": [195]},
        {"id": 169, "piece": [169]},
    ]


async def test_the_prompt_of_a_chat_is_what_the_chat_would_cost() -> None:
    asked = {**ask("hello"), "tools": [tool("look")], "max_tokens": 1}
    async with started(rig({"hello": "Hi."})) as client:
        counted = (await client.post("/tokenize", json=asked)).json()
        del asked["model"]
        unnamed = (await client.post("/tokenize", json=asked)).json()
        used = (await client.post(CHAT, json={**asked, "model": MODEL})).json()["usage"]
        text = (await client.post("/detokenize", json={"tokens": counted["tokens"]})).json()
    assert counted == unnamed
    assert counted["count"] == len(counted["tokens"]) == used["prompt_tokens"]
    assert "look" in text["prompt"]
    assert text["prompt"].endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize("path", ["/detokenize", "/v1/detokenize"])
async def test_tokens_become_their_text_under_both_names(path: str) -> None:
    told = await ask_for(path, {"tokens": [256, 104, 195, 169, 255]})
    assert told == {"content": "<|im_start|>hé�", "prompt": "<|im_start|>hé�"}


async def test_what_was_split_comes_together_again() -> None:
    text = "Zażółć <tool_call> 🎈\n"
    tokens = (await ask_for("/tokenize", {"prompt": text}))["tokens"]
    assert (await ask_for("/detokenize", {"tokens": tokens}))["content"] == text


@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        ("/tokenize", {}, None),
        ("/tokenize", {"content": "a", "prompt": "b"}, None),
        ("/tokenize", {"content": "a", "messages": []}, None),
        ("/tokenize", {"content": 5}, "content"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": [{"role": "x"}]}, "messages[0].role"),
        ("/tokenize", {"messages": [{"role": "user"}], "add_generation_prompt": False},
         "add_generation_prompt"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "abc"}, "tokens"),
        ("/detokenize", {"tokens": [1.5]}, "tokens"),
        ("/detokenize", {"tokens": [True]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [99999]}, "tokens"),
    ],
)  # fmt: skip
async def test_what_makes_no_sense_is_400(path: str, asked: Any, param: str | None) -> None:
    async with started(rig({})) as client:
        reply = await client.post(path, json=asked)
    assert reply.status_code == 400
    assert error_of(reply)["param"] == param


@pytest.mark.parametrize("asked", [{"content": "a"}, {"messages": [{"role": "user"}]}])
async def test_a_key_and_a_known_model_are_asked_for(asked: Any) -> None:
    async with started(rig({}, api_key=("sk-one",))) as client:
        keyless = await client.post("/tokenize", json=asked)
        headers = {"authorization": "Bearer sk-one"}
        unknown = await client.post("/tokenize", json={**asked, "model": "x"}, headers=headers)
        right = await client.post("/tokenize", json=asked, headers=headers)
    assert [one.status_code for one in (keyless, unknown, right)] == [401, 404, 200]


async def test_bos_is_added_as_the_spelling_has_it() -> None:
    from server.wire.tokens import TokenizeRequest

    def adds(**fields: Any) -> bool:
        return TokenizeRequest.model_validate(fields).adds_bos

    assert not adds(content="a")
    assert adds(content="a", add_special=True)
    assert adds(prompt="a")
    assert not adds(prompt="a", add_special_tokens=False)
