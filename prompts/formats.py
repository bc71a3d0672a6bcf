"""How each model family writes a tool call: one row of data per native format.

A row drives three things together: the history in a prompt, the grammar of an answer, and the
parser of that answer. So a family is data, never a class.

A call's text has placeholders: «name», «args» (compact JSON), «id», «i» (index from 0) and «i1»
(index from 1). Markers such as `<tool_call>` are single vocabulary entries in some models and plain
text in others; that is looked up per model and is not written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prompts.conversation import JsonObject, PastCall

Ids = Literal["none", "alnum9", "kimi", "index", "any"]


@dataclass(frozen=True)
class Loose:
    """An opening that a family is known to use although it is not its official one.

    `call` is the text of one call between `open` and `close`. `literal` means that the markers are
    spelled in ordinary tokens even where the vocabulary has an entry for them.
    """

    open: str
    close: str
    call: str
    literal: bool = False


@dataclass(frozen=True)
class ToolFormat:
    """One native format.

    `section` stands once around all calls of a turn, `sep` between two calls. `args` is how «args»
    is written ("json" is the only way so far); `arg` and `arg_sep` belong to the other ways.
    `detect` is (all of these texts, none of these) in a template's source, for templates that drop
    calls from the history. `reasoning` is the pair of tags around thinking. `end` are texts that
    end a turn besides EOS: a token where the vocabulary has it, a stop string otherwise.
    `max_calls` 0 is no limit. `think_kwarg` is the template variable that switches thinking.
    `quirks` is what rendering cannot find ("thinking_key": history has reasoning as `thinking`).
    """

    name: str
    call: str
    section: tuple[str, str] = ("", "")
    sep: str = ""
    args: str = "json"
    arg: str = ""
    arg_sep: str = ""
    detect: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    reasoning: tuple[str, str] = ("", "")
    end: tuple[str, ...] = ()
    max_calls: int = 0
    ids: Ids = "none"
    quirks: frozenset[str] = frozenset()
    think_kwarg: str = ""
    loose: tuple[Loose, ...] = ()


def arguments_text(arguments: JsonObject | str) -> str:
    """JSON as the models were trained on it: one line, raw UTF-8, the order of keys as given."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False)


def render_call(
    row: ToolFormat, name: str, arguments: JsonObject | str, *, call_id: str, index: int
) -> str:
    """The text of one call, without the section around it. `call_id` is used as it is."""
    values = {
        "name": name,
        "args": arguments_text(arguments),
        "id": call_id,
        "i": str(index),
        "i1": str(index + 1),
    }
    # One pass, so that a value that contains a placeholder is left alone.
    return re.sub("«([a-z0-9]+)»", lambda match: values[match[1]], row.call)


def render_calls(row: ToolFormat, calls: Sequence[PastCall]) -> str:
    """The text of all calls of one turn."""
    texts = (
        render_call(row, call.name, call.arguments, call_id=call.id, index=index)
        for index, call in enumerate(calls)
    )
    return row.section[0] + row.sep.join(texts) + row.section[1]


NAME_ARGUMENTS = '{"name": "«name»", "arguments": «args»}'
NAME_PARAMETERS = '{"name": "«name»", "parameters": «args»}'
NAME_ARGUMENTS_ID = '{"name": "«name»", "arguments": «args», "id": "«id»"}'
THINK = ("<think>", "</think>")

# The last resort: also for models without any chat template.
GENERIC = ToolFormat(
    "generic",
    NAME_ARGUMENTS,
    sep="\n",
    end=("\n### ",),
    loose=(Loose("```json\n", "\n```", NAME_ARGUMENTS), Loose("```\n", "\n```", NAME_ARGUMENTS)),
)

HERMES = ToolFormat(
    "hermes",
    f"<tool_call>\n{NAME_ARGUMENTS}\n</tool_call>",
    sep="\n",
    detect=(("<tool_call>",), ("<function=", "<arg_key>", "]<]minimax[>[")),
    reasoning=THINK,
    end=("<|im_end|>", "<|end_of_text|>"),
    think_kwarg="enable_thinking",
    loose=(
        Loose("```json\n", "\n```", NAME_ARGUMENTS),
        Loose("```\n", "\n```", NAME_ARGUMENTS),
        Loose("", "", NAME_ARGUMENTS),
        Loose("<tool_call>\n", "\n</tool_call>", NAME_ARGUMENTS, literal=True),
    ),
)

LLAMA3_JSON = ToolFormat(
    "llama3_json",
    NAME_PARAMETERS,
    max_calls=1,
    detect=(("Environment: ipython",), ()),
    end=("<|eot_id|>", "<|eom_id|>"),
    loose=(
        Loose("<|python_tag|>", "", NAME_PARAMETERS),
        Loose("", "", '{"type": "function", "name": "«name»", "parameters": «args»}'),
        Loose("", "", '{"type": "function", "function": ' + NAME_PARAMETERS + "}"),
        Loose("```json\n", "\n```", NAME_PARAMETERS),
    ),
)

ROWS: tuple[ToolFormat, ...] = (
    HERMES,
    LLAMA3_JSON,
    ToolFormat(
        "harmony",
        " to=functions.«name»<|channel|>commentary json<|message|>«args»",
        detect=(("<|channel|>", "<|start|>"), ()),
        reasoning=("<|channel|>analysis<|message|>", "<|end|>"),
        end=("<|call|>", "<|return|>"),
        max_calls=1,
        quirks=frozenset({"thinking_key"}),
        think_kwarg="reasoning_effort",
        # What the models write themselves; the official form is the one in the history.
        loose=(
            Loose(
                "<|channel|>commentary",
                "",
                " to=functions.«name» <|constrain|>json<|message|>«args»",
            ),
            Loose("<|channel|>commentary", "", " to=functions.«name» json<|message|>«args»"),
        ),
    ),
    ToolFormat(
        "mistral_v13",
        "[TOOL_CALLS]«name»[ARGS]«args»",
        detect=(("[TOOL_CALLS]", "[ARGS]"), ("[CALL_ID]",)),
        reasoning=("[THINK]", "[/THINK]"),
    ),
    ToolFormat(
        "mistral_v11",
        "[TOOL_CALLS]«name»[CALL_ID]«id»[ARGS]«args»",
        detect=(("[TOOL_CALLS]", "[CALL_ID]"), ()),
        ids="alnum9",
    ),
    ToolFormat(
        "mistral_v3",
        NAME_ARGUMENTS_ID,
        section=("[TOOL_CALLS][", "]"),
        sep=", ",
        detect=(("[TOOL_CALLS]", "[AVAILABLE_TOOLS]"), ("[ARGS]",)),
        ids="alnum9",
    ),
    ToolFormat(
        "deepseek_v3",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>«name»\n```json\n«args»\n```<｜tool▁call▁end｜>",
        section=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        sep="\n",
        detect=(("<｜tool▁calls▁begin｜>", "```json"), ()),
        reasoning=THINK,
    ),
    ToolFormat(
        "deepseek_v31",
        "<｜tool▁call▁begin｜>«name»<｜tool▁sep｜>«args»<｜tool▁call▁end｜>",
        section=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        detect=(("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"), ("```json",)),
        reasoning=THINK,
        think_kwarg="thinking",
    ),
    ToolFormat(
        "kimi_k2",
        "<|tool_call_begin|>«id»<|tool_call_argument_begin|>«args»<|tool_call_end|>",
        section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        detect=(("<|tool_call_begin|>", "<|tool_call_argument_begin|>"), ()),
        reasoning=THINK,
        end=("<|im_end|>",),
        ids="kimi",
    ),
    ToolFormat(
        "granite3",
        NAME_ARGUMENTS,
        section=("<|tool_call|>[", "]"),
        sep=", ",
        detect=(("<|tool_call|>", "available_tools"), ()),
        reasoning=THINK,
        end=("<|end_of_text|>",),
        think_kwarg="thinking",
        loose=(Loose("<tool_call>[", "]", NAME_ARGUMENTS),),
    ),
    ToolFormat(
        "phi4_mini",
        NAME_ARGUMENTS,
        section=("<|tool_call|>[", "]<|/tool_call|>"),
        sep=", ",
        detect=(("<|tool|>", "<|/tool|>"), ()),
        end=("<|end|>",),
    ),
    ToolFormat(
        "command_a",
        '{"tool_call_id": "«i»", "tool_name": "«name»", "parameters": «args»}',
        section=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
        sep=",\n    ",
        detect=(("<|START_ACTION|>",), ()),
        reasoning=("<|START_THINKING|>", "<|END_THINKING|>"),
        end=("<|END_OF_TURN_TOKEN|>",),
        ids="index",
    ),
    ToolFormat(
        "nemotron_v2",
        NAME_ARGUMENTS,
        section=("<TOOLCALL>[", "]</TOOLCALL>"),
        sep=", ",
        detect=(("<TOOLCALL>",), ()),
        reasoning=THINK,
        end=("<SPECIAL_12>",),
    ),
    ToolFormat(
        "functionary_v32",
        ">>>«name»\n«args»",
        detect=((">>>all",), ()),
        end=("<|eot_id|>",),
    ),
    ToolFormat(
        "functionary_v31",
        "<function=«name»>«args»</function>",
        detect=(("<function=", "<|eom_id|>", "<|python_tag|>"), ("<parameter=",)),
        end=("<|eom_id|>", "<|eot_id|>"),
    ),
    ToolFormat(
        "apertus",
        '{"«name»": «args»}',
        section=("<|tools_prefix|>[", "]<|tools_suffix|>"),
        sep=", ",
        detect=(("<|tools_prefix|>",), ()),
        end=("<|assistant_end|>",),
    ),
    ToolFormat(
        "solar_open",
        "<|tool_call:begin|>«id»<|tool_call:name|>«name»<|tool_call:args|>«args»<|tool_call:end|>",
        section=("<|tool_calls|>", ""),
        detect=(("<|tool_call:begin|>",), ()),
        end=("<|calls|>", "<|flush|>"),
        ids="any",
    ),
    ToolFormat(
        "gigachat31",
        NAME_ARGUMENTS,
        section=("<|function_call|>", ""),
        detect=(("<|function_call|>", "<|role_sep|>"), ()),
        end=("<|message_sep|>",),
        max_calls=1,
    ),
    ToolFormat(
        "gigachat3",
        NAME_ARGUMENTS,
        section=("function call<|role_sep|>\n", ""),
        detect=(("<|role_sep|>", "<|message_sep|>"), ("<|function_call|>",)),
        end=("<|message_sep|>",),
        max_calls=1,
    ),
    ToolFormat(
        "tool_calls_lines",
        NAME_ARGUMENTS,
        section=("<tool_calls>\n", "\n</tool_calls>"),
        sep="\n",
        detect=(("<tool_calls>", "<beginning_of_sentence>"), ()),
        end=("<end_of_sentence>",),
    ),
    ToolFormat(
        "jamba",
        NAME_ARGUMENTS,
        section=("<tool_calls>[\n    ", "\n]</tool_calls>"),
        sep=",\n    ",
        detect=(("<tool_calls>", "<|bom|>"), ()),
        end=("<|eom|>",),
    ),
    ToolFormat(
        "apriel",
        NAME_ARGUMENTS_ID,
        section=("<tool_calls>[", "]</tool_calls>"),
        sep=", ",
        detect=(("<tool_calls>[",), ()),
        end=("<|end|>",),
        ids="any",
    ),
    ToolFormat(
        "firefunction",
        NAME_ARGUMENTS,
        section=("functools[", "]"),
        sep=", ",
        detect=(("functools[",), ()),
        end=("<|eot_id|>",),
    ),
    GENERIC,
)


def row_named(name: str) -> ToolFormat:
    """Raises KeyError."""
    for row in ROWS:
        if row.name == name:
            return row
    raise KeyError(name)
