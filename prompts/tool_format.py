"""What a row of data says of a family's tool calls, and calls written as it says.

A row drives three things together: the history in a prompt, the grammar of an answer, and the
parser of that answer. So a family is data, never a class.

A call's text has placeholders: «name», «args» (in the row's notation), «id», «i» (index from 0) and
«i1» (index from 1). Markers such as `<tool_call>` are single vocabulary entries in some models and
plain text in others; that is looked up per model and is not written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prompts.conversation import JsonObject, PastCall
from prompts.payloads import JSON, Payload, fill, write_arguments

Ids = Literal["none", "alnum9", "kimi", "index", "any"]


@dataclass(frozen=True)
class Loose:
    """An opening that a family is known to use although it is not its official one.

    `call` is the text of one call between `open` and `close`. `literal` means that the markers are
    spelled in ordinary tokens even where the vocabulary has an entry for them. `args`: another
    notation than the row's. `sep` stands between two calls.
    """

    open: str
    close: str
    call: str
    literal: bool = False
    args: Payload | None = None
    sep: str = "\n"


@dataclass(frozen=True)
class ToolFormat:
    """One native format.

    `section` stands once around all calls of a turn, `sep` between two calls. `args` is how «args»
    is written. `detect` is (all of these texts, none of these) in a template's source, for
    templates that drop calls from the history. `reasoning` is the pair of tags around thinking,
    `efforts` are the family's words for little, usual and much of it. `end` are texts that end a
    turn besides EOS: a token where the vocabulary has it, a stop string otherwise. `written` is a
    call as the models write it, where the history has it otherwise; `text` stands around an answer
    in words. `leads`: an answer that begins with the section and a letter is a call, whatever the
    name. `max_calls` 0 is no limit. `quirks` is what rendering cannot find ("thinking_key":
    history has reasoning as `thinking`).
    """

    name: str
    call: str
    section: tuple[str, str] = ("", "")
    sep: str = ""
    args: Payload = JSON
    detect: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    reasoning: tuple[str, str] = ("", "")
    end: tuple[str, ...] = ()
    written: str = ""
    text: tuple[str, str] = ("", "")
    max_calls: int = 0
    efforts: tuple[str, ...] = ()
    ids: Ids = "none"
    quirks: frozenset[str] = frozenset()
    leads: bool = False
    loose: tuple[Loose, ...] = ()


def render_call(
    row: ToolFormat, name: str, arguments: JsonObject | str, *, call_id: str, index: int
) -> str:
    """The text of one call, without the section around it. `call_id` is used as it is."""
    values = {
        "name": name,
        "args": write_arguments(row.args, arguments),
        "id": call_id,
        "i": str(index),
        "i1": str(index + 1),
    }
    return fill(row.call, values)


def render_calls(row: ToolFormat, calls: Sequence[PastCall]) -> str:
    """The text of all calls of one turn."""
    texts = (
        render_call(row, call.name, call.arguments, call_id=call.id, index=index)
        for index, call in enumerate(calls)
    )
    return row.section[0] + row.sep.join(texts) + row.section[1]
