from __future__ import annotations

import json
from typing import Any

import pytest

from server.lookup import Lookup
from tests.fakes import byte_vocabulary
from tests.serving import CHAT, ask, call, rig, started, tool

VOCABULARY = byte_vocabulary()


def guess(prompt: str, output: str, limit: int = 64) -> str:
    lookup = Lookup(VOCABULARY, VOCABULARY.encode_text(prompt.encode()), limit)
    return VOCABULARY.decode(lookup.guess(VOCABULARY.encode_text(output.encode()))).decode()


@pytest.mark.parametrize(
    ("prompt", "output", "guessed"),
    [
        ("Weather in Porto today?", '{"city": "Po', "rto today?"),
        ("Weather in Porto today?", '{"city": "or', ""),  # within another word
        ("Weather in Porto today?", '{"city": "', ""),
        ("Weather in Porto", '{"city": "Porto', ""),
        ("Pay 12, then 1305 euros", '{"amount": 13', "05 euros"),
        ("Pay 12, then 1305 euros", '{"amount": 1', "305 euros"),  # the last one
        ("In Köln, please", '{"city": "Kö', "ln, please"),
    ],
)
def test_a_begun_word_goes_on_as_in_the_prompt(prompt: str, output: str, guessed: str) -> None:
    assert guess(prompt, output) == guessed


def test_a_guess_has_at_most_so_many_tokens() -> None:
    assert guess("Weather in Porto", "P", limit=3) == "ort"


async def called(lookup_tokens: int) -> tuple[Any, Any]:
    """The call of the one tool, and the timings."""
    says = {"weather": call("weather", '{"city": "Porto"}')}
    made = rig(says, lookup_tokens=lookup_tokens, draft_tokens=8)
    body = ask("weather in Porto", tools=[tool("weather")], include_timings=True)
    async with started(made) as client:
        answer = (await client.post(CHAT, json=body)).json()
    return answer["choices"][0]["message"]["tool_calls"][0]["function"], answer["timings"]


async def test_it_saves_passes_and_changes_nothing() -> None:
    without, slow = await called(0)
    found, fast = await called(4)
    assert found == without
    assert json.loads(found["arguments"]) == {"city": "Porto"}
    assert fast["forward_passes"] == slow["forward_passes"] - len("orto")
    assert fast["accepted_tokens"] == slow["accepted_tokens"] + len("orto")
