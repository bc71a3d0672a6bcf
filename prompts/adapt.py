"""Shapes a conversation for one template: whatever a client sent arrives in the prompt.

Pure functions from messages to messages, in the order of `shape`. The conversation is guarded
already, so that text written here may hold the markers of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prompts.call_ids import with_ids
from prompts.conversation import Conversation, JsonObject, Message, PastCall, Tool
from prompts.payloads import dumps
from prompts.tool_format import ToolFormat, render_calls
from prompts.traits import TemplateTraits

PARAGRAPH = "\n\n"
# What a call is given whose arguments in the history were not a JSON object.
RAW_ARGUMENTS = "input"


@dataclass(frozen=True)
class Shaped:
    """What goes into the template's variables `messages` and `tools`."""

    messages: list[JsonObject]
    tools: list[JsonObject]


def shape(
    conversation: Conversation, row: ToolFormat, traits: TemplateTraits, listing: str
) -> Shaped:
    """`listing` is the text that lists the tools, used where the template does not."""
    messages: Sequence[Message] = with_ids(conversation.messages, row.ids)
    messages = [_with_object_arguments(message) for message in messages]
    if traits.drop_empty:
        messages = [message for message in messages if not _is_empty(message)]
    ours = traits.tools == "ours"
    if ours and conversation.tools:
        messages = _with_listing(messages, listing)
    messages = _without_system(messages, traits)
    if traits.alternate:
        messages = _merged(messages, into_calls=True)
    if traits.parallel == "single":
        messages = _one_call_each(messages)
    messages = _calls_as_text(messages, row, traits)
    if traits.text_beside_calls == "before":
        messages = _text_before_calls(messages)
    if traits.alternate:
        messages = _merged(messages, into_calls=False)
    if traits.user_first:
        messages = _user_first(messages)
    return Shaped(
        messages=[_as_dict(message, row, traits) for message in messages],
        tools=[] if ours else [tool_dict(tool) for tool in conversation.tools],
    )


def tool_dict(tool: Tool) -> JsonObject:
    """A tool as OpenAI's wire has it, always with all three members, in this order."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _is_empty(message: Message) -> bool:
    return message.role == "assistant" and not message.content and not message.calls


def _with_object_arguments(message: Message) -> Message:
    if not any(isinstance(call.arguments, str) for call in message.calls):
        return message
    calls = tuple(
        replace(call, arguments={RAW_ARGUMENTS: call.arguments} if call.arguments else {})
        if isinstance(call.arguments, str)
        else call
        for call in message.calls
    )
    return replace(message, calls=calls)


def _with_listing(messages: Sequence[Message], listing: str) -> list[Message]:
    if messages and messages[0].role == "system":
        first = _joined([messages[0].content, listing])
        return [replace(messages[0], content=first), *messages[1:]]
    return [Message("system", listing), *messages]


def _without_system(messages: Sequence[Message], traits: TemplateTraits) -> list[Message]:
    """Later system messages keep their place, as user messages."""
    if traits.system == "anywhere":
        return list(messages)
    leading = 0
    while leading < len(messages) and messages[leading].role == "system":
        leading += 1
    text = _joined(message.content for message in messages[:leading])
    rest = [
        replace(message, role="user") if message.role == "system" else message
        for message in messages[leading:]
    ]
    if not leading:
        return rest
    if traits.system == "first":
        return [Message("system", text), *rest]
    return _into_user(rest, text, last=traits.system == "last_user")


def _into_user(messages: list[Message], text: str, *, last: bool) -> list[Message]:
    places = [i for i, message in enumerate(messages) if message.role == "user"]
    if not places or (not last and places[0] != 0):
        return [Message("user", text), *messages]
    place = places[-1] if last else places[0]
    user = replace(messages[place], content=_joined([text, messages[place].content]))
    return [*messages[:place], user, *messages[place + 1 :]]


def _merged(messages: Iterable[Message], *, into_calls: bool) -> list[Message]:
    """Neighbours of one role become one message, but results do not.

    `into_calls`: text goes into a message that calls after it.
    """
    groups: list[list[Message]] = []
    for message in messages:
        before = groups[-1][-1] if groups else None
        alike = before and before.role == message.role != "tool" and not before.calls
        if alike and (into_calls or not message.calls):
            groups[-1].append(message)
        else:
            groups.append([message])
    return [
        replace(
            group[-1],
            content=_joined(message.content for message in group),
            reasoning=_joined(message.reasoning for message in group),
        )
        for group in groups
    ]


def _user_first(messages: Sequence[Message]) -> list[Message]:
    first = 1 if messages and messages[0].role == "system" else 0
    if first < len(messages) and messages[first].role == "user":
        return list(messages)
    return [*messages[:first], Message("user"), *messages[first:]]


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages, each calling assistant together with the results that follow it."""
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and turns and turns[-1][0].calls:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def _one_call_each(messages: Sequence[Message]) -> list[Message]:
    """Each call becomes a message of its own, followed by its result."""
    single: list[Message] = []
    for caller, *results in _turns(messages):
        if len(caller.calls) < 2:
            single += [caller, *results]
            continue
        answers: dict[str, list[Message]] = {call.id: [] for call in caller.calls}
        others: list[Message] = []
        for result in results:
            answers.get(result.call_id, others).append(result)
        for index, call in enumerate(caller.calls):
            first = caller if index == 0 else Message("assistant")
            single += [replace(first, calls=(call,)), *answers[call.id]]
        single += others
    return single


def _calls_as_text(
    messages: Sequence[Message], row: ToolFormat, traits: TemplateTraits
) -> list[Message]:
    """Calls that the template would drop or refuse are written into the content."""
    turns = _turns(messages)
    written: list[Message] = []
    for index, (caller, *results) in enumerate(turns):
        user_follows = index + 1 < len(turns) and turns[index + 1][0].role == "user"
        as_text = (
            traits.calls == "text"
            or (traits.text_beside_calls == "text" and caller.content)
            or (traits.user_after_result == "text" and user_follows)
        )
        if caller.role == "tool":  # without its call; templates look for one, or for its id
            written += _as_user([caller])
        elif caller.calls and as_text:
            text = "\n".join(filter(None, [caller.content, render_calls(row, caller.calls)]))
            written.append(replace(caller, content=text, calls=()))
            written += results if traits.results == "native" else _as_user(results)
        else:
            written += [caller, *results]
    return written


def _as_user(results: Sequence[Message]) -> list[Message]:
    texts = [f"<tool_response>\n{result.content}\n</tool_response>" for result in results]
    return [Message("user", "\n".join(texts))] if texts else []


def _text_before_calls(messages: Sequence[Message]) -> list[Message]:
    split: list[Message] = []
    for message in messages:
        if message.calls and message.content:
            split += [replace(message, calls=()), replace(message, content="", reasoning="")]
        else:
            split.append(message)
    return split


def _joined(texts: Iterable[str]) -> str:
    return PARAGRAPH.join(filter(None, texts))


def _as_dict(message: Message, row: ToolFormat, traits: TemplateTraits) -> JsonObject:
    """Keys that have nothing to say are left out: templates ask whether they are defined."""
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if traits.content == "parts":
        entry["content"] = [{"type": "text", "text": message.content}]
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
        if "thinking_key" in row.quirks:
            entry["thinking"] = message.reasoning
    if message.role == "tool":
        entry["tool_call_id"] = message.call_id
        entry["name"] = message.name
    if message.calls:
        entry["tool_calls"] = [_call_dict(call, traits) for call in message.calls]
        if not message.content and traits.empty_content != "text":
            _EMPTY_CONTENT[traits.empty_content](entry)
    return entry


_EMPTY_CONTENT: dict[str, Callable[[dict[str, Any]], object]] = {
    "null": lambda entry: entry.update(content=None),
    "absent": lambda entry: entry.pop("content"),
}


def _call_dict(call: PastCall, traits: TemplateTraits) -> JsonObject:
    arguments = call.arguments if traits.arguments == "object" else dumps(call.arguments)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
