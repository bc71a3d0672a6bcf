"""Custom tools through the OpenAI SDK, with real models: what comes back matches its grammar."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai import BadRequestError

from tests.e2e.conftest import Served

pytestmark = [pytest.mark.weights, pytest.mark.timeout(3600)]

SUMS = 'start: NUMBER (SIGN NUMBER)*\nSIGN: "+" | "-"\nNUMBER: /[0-9]{1,3}/\n%ignore " "'
QUOTED = 'start: "say(" STRING ")"\nSTRING: /"[a-z \\\\\\n]{1,20}"/'
GRAMMARS = {
    "regex": ({"syntax": "regex", "definition": r"[0-9]{4}-[0-9]{2}"}, r"[0-9]{4}-[0-9]{2}"),
    "lark": ({"syntax": "lark", "definition": SUMS}, r"[0-9]{1,3}(\s*[+-]\s*[0-9]{1,3})*\s*"),
    "escapes": ({"syntax": "lark", "definition": QUOTED}, r'say\("[a-z \\\n]{1,20}"\)'),
}
QUESTION: Any = [{"role": "user", "content": "Call the tool with an input for 2 + 3, May 2024."}]


def tools(grammar: dict[str, str] | None) -> Any:
    format = {"type": "grammar", "grammar": grammar} if grammar else {"type": "text"}
    custom = {"name": "run", "description": "Takes an input.", "format": format}
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "Weather.", "parameters": city}
    return [{"type": "function", "function": function}, {"type": "custom", "custom": custom}]


@pytest.mark.parametrize("name", GRAMMARS)
def test_an_input_matches_its_grammar_at_any_temperature(served: Served, name: str) -> None:
    grammar, pattern = GRAMMARS[name]
    choice: Any = {"type": "custom", "custom": {"name": "run"}}
    for seed in range(3):
        answer = served.client.chat.completions.create(
            model=served.model,
            messages=QUESTION,
            tools=tools(grammar),
            tool_choice=choice,
            temperature=1.5,
            seed=seed,
            max_tokens=200,
        )
        assert answer.choices[0].finish_reason == "tool_calls"
        [call] = answer.choices[0].message.tool_calls or []
        assert call.type == "custom"
        assert call.custom.name == "run"
        assert re.fullmatch(pattern, call.custom.input), call.custom.input


def test_a_streamed_input_adds_up_and_goes_into_the_history(served: Served) -> None:
    fields: Any = {
        "model": served.model,
        "tools": tools(GRAMMARS["lark"][0]),
        "temperature": 0,
        "max_tokens": 200,
    }
    choice: Any = {"type": "custom", "custom": {"name": "run"}}
    whole = served.client.chat.completions.create(
        messages=QUESTION, tool_choice=choice, **fields
    ).choices[0]
    text, kinds = "", []
    for chunk in served.client.chat.completions.create(
        messages=QUESTION, tool_choice=choice, stream=True, **fields
    ):
        for piece in chunk.choices[0].delta.tool_calls or []:
            kinds += [piece.type] if piece.type else []
            text += (piece.model_extra or {})["custom"]["input"]
    [call] = whole.message.tool_calls or []
    assert call.type == "custom"
    assert kinds == ["custom"]
    assert text == call.custom.input
    history: Any = [
        *QUESTION,
        whole.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "5"},
    ]
    after = served.client.chat.completions.create(messages=history, tool_choice="none", **fields)
    assert after.choices[0].finish_reason in ("stop", "length")


def test_a_bad_grammar_is_told_to_its_sender(served: Served) -> None:
    with pytest.raises(BadRequestError) as caught:
        served.client.chat.completions.create(
            model=served.model,
            messages=QUESTION,
            tools=tools({"syntax": "lark", "definition": "start: nowhere"}),
        )
    assert caught.value.param == "tools[1].custom.format.grammar.definition"
    assert "nowhere" in caught.value.message
