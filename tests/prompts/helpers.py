"""Conversations and chat templates for the tests of prompts.

The templates here are ours, each with one of the habits that official ones have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from prompts.canned import OTHER_TOOL, TOOL
from prompts.conversation import Conversation, Message, PastCall, Tool
from prompts.facts import ModelFacts

# The templates of llama.cpp's source distribution (`vendor/llama.cpp/models/templates`), if someone
# put them or a link to them here. They belong to others and are never committed.
OFFICIAL = Path.home() / ".cache" / "callwright" / "llama.cpp-templates"
MARKERS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
WEATHER = Tool(
    "get_weather",
    "Weather of a city.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "its name", "examples": ["Porto"]},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        },
        "required": ["city"],
    },
)

# Turns must alternate, there is no system role, and nothing else is known.
STRICT = (
    "{% for m in messages %}"
    "{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no ' + m.role) }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turn') }}{% endif %}"
    "[{{ m.role }}]{{ m.content | trim }}\n{% endfor %}"
)
# Drops calls, results and tools without a word.
SILENT = (
    "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}"
    "[{{ m.role }}]{{ m.content }}\n{% endif %}{% endfor %}"
)
_TOOLS = "{% if tools %}TOOLS {{ tools | tojson }}\n{% endif %}"
# Wants arguments as JSON text and null content beside calls.
TEXT_ARGUMENTS = (
    _TOOLS + "{% for m in messages %}[{{ m.role }}]"
    "{% if m.content is none %}{% for c in m.tool_calls %}<tool_call>\n"
    """{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments + '' }}}"""
    "\n</tool_call>\n{% endfor %}{% else %}{{ m.content }}\n{% endif %}{% endfor %}"
)
# Ids of nine letters, one system message, no text beside calls, no user after a result.
PICKY = (
    _TOOLS + "{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('system') }}{% endif %}"
    "{% if m.role == 'user' and not loop.first and loop.previtem.role == 'tool' %}"
    "{{ raise_exception('user after result') }}{% endif %}"
    "[{{ m.role }}]{% if m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}"
    "{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}"
    """{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }},"""
    """ "id": "{{ c.id }}"}{{ ', ' if not loop.last }}{% endfor %}]"""
    "{% else %}{{ m.content }}{% endif %}\n{% endfor %}"
)
# One call a turn, and tools must be a list.
ONE_CALL = (
    "{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}[{{ m.role }}]"
    "{{ m.content }}{% if m.tool_calls %}"
    "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call') }}{% endif %}"
    """{"name": "{{ m.tool_calls[0].function.name }}","""
    """ "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}"""
    "{% endif %}\n{% endfor %}Environment: ipython\n"
)
DIFFICULT = {
    "strict": STRICT,
    "silent": SILENT,
    "text arguments": TEXT_ARGUMENTS,
    "picky": PICKY,
    "one call": ONE_CALL,
}


def facts(template: str | None = None, markers: tuple[str, ...] = MARKERS) -> ModelFacts:
    return ModelFacts("test model", template, "<bos>", "<eos>", markers)


def user(text: str) -> Conversation:
    return Conversation((Message("user", text),))


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """What the wire layer makes of ordinary requests: results follow their calls."""
    words = (f"word{number:03d}x" for number in count())
    messages: list[Message] = []
    for kind in draw(st.lists(st.sampled_from(_KINDS), max_size=8)):
        messages += draw(_messages(kind, words))
    messages.append(Message("user", next(words)))
    tools = draw(st.sampled_from([(), (TOOL,), (TOOL, OTHER_TOOL)]))
    return Conversation(tuple(messages), tools)


_KINDS = ("user", "system", "assistant", "empty", "call", "two calls", "text and call", "orphan")


@st.composite
def _messages(draw: st.DrawFn, kind: str, words: Iterator[str]) -> list[Message]:
    if kind in ("user", "system", "assistant"):
        return [Message(kind, next(words))]  # type: ignore[arg-type]
    if kind == "empty":
        return [Message("assistant")]
    if kind == "orphan":
        return [Message("tool", next(words), call_id="lost", name=TOOL.name)]
    ids = st.text("abc_-19", min_size=1, max_size=12)
    calls = tuple(
        PastCall(draw(ids), draw(st.sampled_from([TOOL, OTHER_TOOL])).name, draw(_arguments(words)))
        for _ in range(2 if kind == "two calls" else 1)
    )
    text = next(words) if kind == "text and call" else ""
    results = [Message("tool", next(words), call_id=call.id, name=call.name) for call in calls]
    return [Message("assistant", text, calls=calls), *results]


def _arguments(words: Iterator[str]) -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [{}, {"place": next(words)}, {"a": [next(words), {"b": None}]}, '{"cut": "' + next(words)]
    )


def missing_words(conversation: Conversation, prompt: str) -> list[str]:
    """Words of the conversation that a client would miss in the prompt."""
    texts: list[str] = []
    for message in conversation.messages:
        texts.append(message.content)
        for call in message.calls:
            texts += [call.name, str(call.arguments)]
    for tool in conversation.tools:
        texts += [tool.name, tool.description]
    words = {word for text in texts for word in re.findall(r"\w{4,}", text)} - {"None"}
    return sorted(word for word in words if word not in prompt)


def in_order(conversation: Conversation, prompt: str) -> bool:
    """Whether what users, assistant and tools said is in the order in which it was said."""
    said = [
        message.content
        for message in conversation.messages
        if message.content and message.role != "system"
    ]
    places = [prompt.find(text) for text in said]
    return places == sorted(places)
