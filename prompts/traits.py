"""What a chat template can take, as found by rendering (see `prompts/probe.py`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Content = Literal["text", "parts"]
Arguments = Literal["object", "text"]
EmptyContent = Literal["text", "null", "absent"]
NoTools = Literal["null", "absent", "empty"]
Results = Literal["native", "user"]


@dataclass(frozen=True)
class TemplateTraits:
    """How messages must be shaped so that a template neither raises nor loses anything.

    The defaults are the shape that asks most of a template: OpenAI's messages as they come, with
    arguments as an object.
    """

    # "parts": every content is a list of one text part, as templates for pictures want it.
    content: Content = "text"
    # Arguments of a call in the history, and the content of an assistant that only calls.
    arguments: Arguments = "object"
    empty_content: EmptyContent = "text"
    # How the variable `tools` says that there are none.
    no_tools: NoTools = "null"
    # "ours": a system text that we write lists the tools.
    tools: Literal["native", "ours"] = "native"
    # "typed": it only lists parameters that have a type; tools with others are listed by us.
    tool_schemas: Literal["any", "typed"] = "any"
    # "text": we write the call into the content, in the style of the row.
    calls: Literal["native", "text"] = "native"
    # Results whose call is written as text. "user": they are text of a user message.
    results: Results = "native"
    # "single": every call and its result become two messages of their own.
    parallel: Literal["native", "single"] = "native"
    # Text of an assistant message that also calls. "before": in a message before the calls.
    text_beside_calls: Literal["native", "before", "text"] = "native"
    # A user message directly after results. "text": the calls before it are written as text.
    user_after_result: Literal["native", "text"] = "native"
    # "first": later ones become user messages. The last two: text of the first, or last, user.
    system: Literal["anywhere", "first", "first_user", "last_user"] = "anywhere"
    # Messages of one role in a row become one message.
    alternate: bool = False
    # A user has the first word, if only an empty one.
    user_first: bool = False
    # An assistant message that says nothing and calls nothing is left out.
    drop_empty: bool = False


# Needs nothing of a template but that it can show a user and an assistant taking turns.
PLAIN = TemplateTraits(
    tools="ours",
    calls="text",
    results="user",
    system="first_user",
    alternate=True,
    user_first=True,
    drop_empty=True,
)


def plain(found: TemplateTraits) -> TemplateTraits:
    """PLAIN in the variables that the template takes."""
    return replace(PLAIN, content=found.content, no_tools=found.no_tools)
