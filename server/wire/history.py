"""A chat request as the conversation that templates see.

How an untidy history is mended, always the same way for the same request:

- Results follow their assistant message directly and in the order of its calls, also where other
  messages came between; those then follow the results.
- A call that was never answered gets the result `UNANSWERED`: many templates fail without one.
- A result without a call (its assistant message was cut off the history) stays where it is, as a
  tool message with its text.
- An id that is missing or used twice among calls made together is replaced by `call00001` and so
  on; other foreign ids are kept, templates with a rule of their own are the renderer's concern.
- Roles that follow each other are left alone, and so is a last message from the assistant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from prompts.conversation import Conversation, JsonObject, Message, PastCall, Tool
from server.wire.chat import ChatRequest
from server.wire.messages import WireCall, WireMessage
from server.wire.pairing import Result, pair

UNANSWERED = "No result was recorded for this call."
WISHES = {"low": "Keep your answers short.", "high": "Answer at length and in detail."}
"""What `verbosity` asks the model for."""


def to_conversation(request: ChatRequest) -> Conversation:
    """Raises InvalidRequest for a result that could belong to several calls, by its index.

    With `tool_choice` none the tools are left out, so that the model is not tempted; with
    `allowed_tools` all of them stay, so that the prompt is the same whichever may be called.
    """
    offered = request.offered if request.choice.mode != "none" else ()
    return Conversation(
        messages=tuple(_with_length(_mended(request.messages), request.verbosity)),
        tools=tuple(Tool(tool.name, tool.description, tool.shown) for tool in offered),
        template_options=_template_options(request),
    )


def _template_options(request: ChatRequest) -> JsonObject:
    """`chat_template_kwargs` over what `reasoning_effort` means to templates that have a switch."""
    effort = request.reasoning_effort
    options: JsonObject = {} if effort is None else {"reasoning_effort": effort}
    if effort == "none":
        options["enable_thinking"] = False
    return {**options, **request.chat_template_kwargs}


def _with_length(messages: Iterator[Message], verbosity: str | None) -> Iterator[Message]:
    """No open model has a switch for how much it says: it is asked for in the system message."""
    wish = WISHES.get(verbosity or "")
    if wish is None:
        yield from messages
        return
    first = next(messages)
    if first.role == "system":
        yield replace(first, content=f"{first.content}\n\n{wish}".lstrip())
    else:
        yield Message(role="system", content=wish)
        yield first
    yield from messages


@dataclass
class _Block:
    """Assistant messages in a row, and everything up to the next one."""

    speakers: list[WireMessage] = field(default_factory=list)
    followers: list[Result] = field(default_factory=list)


def _blocks(messages: tuple[WireMessage, ...]) -> Iterator[_Block]:
    block = _Block()
    for index, message in enumerate(messages):
        if message.role != "assistant":
            block.followers.append(Result(index, message))
            continue
        if block.followers:
            yield block
            block = _Block()
        block.speakers.append(message)
    yield block


def _mended(messages: tuple[WireMessage, ...]) -> Iterator[Message]:
    ids = _Ids(messages)
    for block in _blocks(messages):
        yield from _mended_block(block, ids)


def _mended_block(block: _Block, ids: _Ids) -> Iterator[Message]:
    calls = tuple(call for speaker in block.speakers for call in speaker.calls)
    results = tuple(one for one in block.followers if one.message.role in ("tool", "function"))
    pairs = pair(calls, results)
    answers = iter(pairs.answers)
    past_calls = iter(ids.unique(calls))
    for speaker in block.speakers:
        made = tuple(next(past_calls) for _ in speaker.calls)
        yield Message(
            role="assistant",
            content=speaker.content or speaker.refusal,
            calls=made,
            reasoning=speaker.reasoning_content or speaker.reasoning,
        )
        for call in made:
            answer = next(answers)
            text = answer.message.content if answer is not None else UNANSWERED
            yield Message(role="tool", content=text, call_id=call.id, name=call.name)
    orphans = {result.index for result in pairs.orphans}
    for follower in block.followers:
        if follower.message.role not in ("tool", "function") or follower.index in orphans:
            yield _as_message(follower.message)


def _as_message(message: WireMessage) -> Message:
    if message.role in ("tool", "function"):
        return Message(
            role="tool", content=message.content, call_id=message.tool_call_id, name=message.name
        )
    return Message(role="user" if message.role == "user" else "system", content=message.content)


class _Ids:
    """Gives calls ids that differ within a block, by counting, never by chance."""

    def __init__(self, messages: tuple[WireMessage, ...]) -> None:
        self._taken = {call.id for message in messages for call in message.calls}
        self._count = 0

    def unique(self, calls: tuple[WireCall, ...]) -> list[PastCall]:
        seen: set[str] = set()
        past = []
        for call in calls:
            call_id = call.id if call.id and call.id not in seen else self._next()
            seen.add(call_id)
            past.append(PastCall(call_id, call.name, call.arguments))
        return past

    def _next(self) -> str:
        while True:
            self._count += 1
            made = f"call{self._count:05d}"
            if made not in self._taken:
                return made
