from __future__ import annotations

import json
from typing import Any

import pytest

from prompts.conversation import Conversation, Message, Tool
from prompts.facts import ModelFacts
from prompts.select import choose
from server.bench.bodies import MODES, Answer, Call, Mode, Script
from server.bench.workloads import Series
from server.config import load
from server.wire.chat import parse_chat_request
from tests.bench.helpers import level

[AGENT, *_] = Series(1, "abc").dialogues(level("agent"), 0)
[CHAT, *_] = Series(1, "abc").dialogues(level("chat"), 0)
CALL = Call("abcdefgh1", AGENT.tools[0].name, '{"a": 1}')


def test_the_way_of_the_api() -> None:
    body = Script("tools").body(AGENT, [])
    assert body["tool_choice"] == "required"
    assert body["parallel_tool_calls"] is False
    assert body["temperature"] == 0
    assert [tool["function"]["name"] for tool in body["tools"]] == [
        tool.name for tool in AGENT.tools
    ]
    assert body["messages"] == [
        {"role": "system", "content": AGENT.system},
        {"role": "user", "content": AGENT.turns[0]},
    ]
    parse_chat_request(json.dumps({"model": "any", **body}).encode(), load())


def test_a_turn_follows_the_call_and_its_result() -> None:
    body = Script("tools").body(AGENT, [Answer(calls=(CALL,))])
    assistant, result = body["messages"][2:]
    assert assistant["tool_calls"] == [
        {
            "id": CALL.id,
            "type": "function",
            "function": {"name": CALL.name, "arguments": CALL.arguments},
        }
    ]
    assert result == {"role": "tool", "tool_call_id": CALL.id, "content": AGENT.turns[1]}
    request = parse_chat_request(json.dumps({"model": "any", **body}).encode(), load())
    assert len(request.messages) == 4


def test_without_tools_all_modes_ask_the_same() -> None:
    bodies = [Script(mode).body(CHAT, []) for mode in MODES]
    assert bodies == bodies[:1] * 3
    assert set(bodies[0]) == {"messages", "temperature", "max_tokens"}


def chatml(messages: list[dict[str, Any]]) -> str:
    """What a server's own template makes of text messages, for models of the Qwen family."""
    turns = (f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in messages)
    return "".join(turns) + "<|im_start|>assistant\n"


@pytest.mark.parametrize("mode", ["response_format", "json_object"])
def test_in_text_the_prompt_is_the_one_that_our_server_writes(mode: Mode) -> None:
    facts = ModelFacts("qwen", chat_template=None, bos="", eos="<|im_end|>", special_tokens=())
    ours = choose(facts, "qwen2_5").render(
        Conversation(
            (Message("system", AGENT.system), Message("user", AGENT.turns[0])),
            tuple(Tool(tool.name, tool.description, tool.parameters) for tool in AGENT.tools),
        )
    )
    body = Script(mode).body(AGENT, [])
    assert "tools" not in body
    assert chatml(body["messages"]) == ours


def test_in_text_an_answer_comes_back_to_the_letter() -> None:
    text = '{"name": "x",   "arguments": {}}'
    body = Script("response_format").body(AGENT, [Answer(text)])
    assistant, result = body["messages"][2:]
    assert assistant == {"role": "assistant", "content": text}
    assert result["role"] == "user"
    assert result["content"] == f"<tool_response>\n{AGENT.turns[1]}\n</tool_response>"


def test_the_schema_of_the_answer_is_in_its_place() -> None:
    new = Script("response_format").body(AGENT, [])["response_format"]
    old = Script("json_object").body(AGENT, [])["response_format"]
    assert new["type"] == "json_schema"
    assert old["type"] == "json_object"
    assert new["json_schema"]["schema"] == old["schema"]
    names = [one["properties"]["name"]["enum"] for one in old["schema"]["anyOf"]]
    assert names == [[tool.name] for tool in AGENT.tools]
