"""A dialogue as the bodies of requests, in each way to ask for a call.

`tools` is the API's own way. Servers whose `tool_choice: required` is no constraint are asked for
the same JSON by `response_format`, with the tools in the system message in the text that our server
writes there for models of the Hermes format; `json_object` is the older form of that field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from prompts.sandbox import ChatTemplate
from prompts.select import OWN_TEMPLATES
from server.bench.phrases import Tool
from server.bench.workloads import Dialogue
from server.wire.body import JsonObject

Mode = Literal["tools", "response_format", "json_object"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class Call:
    """A call of an answer; `arguments` as JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """What a server said; `cut`: it ended at the token limit."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    cut: bool = False


class Script:
    """How one server is asked for dialogues."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self.in_text = mode != "tools"  # calls stand in the text of the answer
        self._template = ChatTemplate(OWN_TEMPLATES["qwen2_5"].source)

    def body(self, dialogue: Dialogue, answers: Sequence[Answer]) -> JsonObject:
        """The request for the turn after `answers`, without model and stream."""
        in_text = self.in_text and bool(dialogue.tools)
        system = self._listing(dialogue) if in_text else dialogue.system
        messages: list[JsonObject] = [
            {"role": "system", "content": system},
            {"role": "user", "content": dialogue.turns[0]},
        ]
        for answer, result in zip(answers, dialogue.turns[1:], strict=False):
            messages += _in_text(answer, result) if in_text else _in_calls(answer, result)
        body: JsonObject = {
            "messages": messages,
            "temperature": 0,
            "max_tokens": dialogue.max_tokens,
        }
        if in_text:
            body["response_format"] = self._response_format(dialogue.tools)
        elif dialogue.tools:
            body["tools"] = [tool.as_wire() for tool in dialogue.tools]
            body |= {"tool_choice": "required", "parallel_tool_calls": False}
        return body

    def _listing(self, dialogue: Dialogue) -> str:
        """The system turn that our template writes, without the markers around it."""
        turn = self._template.render(
            {
                "messages": [{"role": "system", "content": dialogue.system}],
                "tools": [tool.as_wire() for tool in dialogue.tools],
            }
        )
        return turn.strip().removeprefix("<|im_start|>system\n").removesuffix("<|im_end|>")

    def _response_format(self, tools: Sequence[Tool]) -> JsonObject:
        schema = {"anyOf": [_call_schema(tool) for tool in tools]}
        if self._mode == "json_object":
            return {"type": "json_object", "schema": schema}
        return {
            "type": "json_schema",
            "json_schema": {"name": "call", "strict": True, "schema": schema},
        }


def _call_schema(tool: Tool) -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [tool.name]},
            "arguments": tool.closed_parameters,
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _in_calls(answer: Answer, result: str) -> list[JsonObject]:
    call = answer.calls[0]
    function = {"name": call.name, "arguments": call.arguments}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call.id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call.id, "content": result},
    ]


def _in_text(answer: Answer, result: str) -> list[JsonObject]:
    """The answer to the letter: so the server finds it in its cache."""
    return [
        {"role": "assistant", "content": answer.text},
        {"role": "user", "content": f"<tool_response>\n{result}\n</tool_response>"},
    ]
