"""Small conversations that every template must be able to show, one difficulty each.

Their words occur in no template's own text, so that a word which is missing in a prompt was lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from prompts.conversation import Conversation, JsonObject, Message, PastCall, Tool

CITY = "Zwolle"
_WORD = re.compile(r"\w+")


def weather_tool(name: str = "weather_probe") -> Tool:
    properties: JsonObject = {
        "place": {"type": "string", "description": "Name of the ostrov."},
        "days": {"type": "integer", "description": "How many dnei."},
    }
    parameters = {"type": "object", "properties": properties, "required": ["place"]}
    return Tool(name, "Tells the weather of kvartal.", parameters)


TOOL = weather_tool()
OTHER_TOOL = weather_tool("tide_probe")
ODD_TOOL = Tool(
    "odd_probe",
    "",
    {
        "type": "object",
        "properties": {
            "vole": {},
            "stoat": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "marten": {"enum": ["ermine", None]},
            "weasel": {"type": ["string", "null"]},
            "badger": True,
        },
    },
)
CALL = PastCall("a1b2c3d4e", TOOL.name, {"place": CITY, "days": 3})
OTHER_CALL = PastCall("b1b2c3d4e", OTHER_TOOL.name, {"place": "Texel", "days": 4})

WORD_OF_SYSTEM = "quokka"
WORD_OF_FIRST_USER = "wombat"

_SYSTEM = Message("system", WORD_OF_SYSTEM)
_USER = Message("user", WORD_OF_FIRST_USER)
_AGAIN = Message("user", "numbat")
_ANSWER = Message("assistant", "bilby")
_CALLS = Message("assistant", calls=(CALL,))
_SAYS_AND_CALLS = Message("assistant", "potoroo", calls=(CALL,))
_RESULT = Message("tool", "bandicoot", call_id=CALL.id, name=CALL.name)
_CALLS_TWICE = Message("assistant", calls=(CALL, OTHER_CALL))
_OTHER_RESULT = Message("tool", "dunnart", call_id=OTHER_CALL.id, name=OTHER_CALL.name)


def _talk(*messages: Message, tools: tuple[Tool, ...] = (TOOL, OTHER_TOOL)) -> Conversation:
    return Conversation(messages, tools)


CANNED: Mapping[str, Conversation] = {
    "question": _talk(_USER, tools=()),
    "tools": _talk(_USER),
    "odd tools": _talk(_USER, tools=(TOOL, ODD_TOOL)),
    "system": _talk(_SYSTEM, _USER, _ANSWER, _AGAIN, tools=()),
    "system last": _talk(_SYSTEM, _USER, _CALLS, _RESULT),
    "later system": _talk(Message("system", "koala"), _USER, _ANSWER, _SYSTEM, _AGAIN, tools=()),
    "in a row": _talk(
        _USER, _AGAIN, _ANSWER, Message("assistant", "glider"), Message("user", "dingo"), tools=()
    ),
    "assistant first": _talk(_ANSWER, _USER, tools=()),
    "call first": _talk(_CALLS, _RESULT, _AGAIN),
    "says nothing": _talk(_USER, Message("assistant"), _AGAIN, tools=()),
    "call": _talk(_USER, _CALLS, _RESULT),
    "loop": _talk(_USER, _CALLS, _RESULT, _ANSWER, _AGAIN),
    "two calls": _talk(_USER, _CALLS_TWICE, _RESULT, _OTHER_RESULT, _ANSWER, _AGAIN),
    "text and call": _talk(_USER, _SAYS_AND_CALLS, _RESULT, _ANSWER, _AGAIN),
    "text and later call": _talk(_USER, _CALLS, _RESULT, _SAYS_AND_CALLS, _RESULT, _ANSWER, _AGAIN),
    "user after result": _talk(_USER, _CALLS, _RESULT, _AGAIN),
    "everything": _talk(
        _SYSTEM, _USER, _SAYS_AND_CALLS, _RESULT, _CALLS_TWICE, _RESULT, _OTHER_RESULT, _AGAIN
    ),
}


def words(conversation: Conversation, *, tools: bool = True) -> set[str]:
    """Every word that must be in the prompt: contents, calls, and with `tools` their listing."""
    texts: list[str] = []
    for message in conversation.messages:
        texts.append(message.content)
        for call in message.calls:
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            texts += [call.name, *arguments, *map(str, arguments.values())]
    if tools:
        for tool in conversation.tools:
            properties = tool.parameters["properties"]
            texts += [tool.name, tool.description, *properties]
            texts += [
                value.get("description", "") for value in properties.values() if value is not True
            ]
    return {word for text in texts for word in _WORD.findall(text)}
