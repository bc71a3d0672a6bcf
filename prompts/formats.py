"""The rows: how each model family writes a tool call, as data (see `prompts/tool_format.py`)."""

from __future__ import annotations

from dataclasses import replace

from prompts.own_formats import CALL_LIST, GENERIC, NAME_ARGUMENTS, PYTHONIC
from prompts.payloads import JSON, Keywords, Quoted, Tags
from prompts.tool_format import Ids, Loose, ToolFormat, render_call, render_calls

__all__ = [
    "GENERIC",
    "HERMES",
    "LLAMA3_JSON",
    "ROWS",
    "Ids",
    "Loose",
    "ToolFormat",
    "render_call",
    "render_calls",
    "row_named",
]

NAME_PARAMETERS = '{"name": "«name»", "parameters": «args»}'
NAME_ARGUMENTS_ID = '{"name": "«name»", "arguments": «args», "id": "«id»"}'
DSML_INVOKE = '<｜DSML｜invoke name="«name»">\n«args»</｜DSML｜invoke>\n'
DSML_PARAMETER = '<｜DSML｜parameter name="«key»" string="«isstr»">«value»</｜DSML｜parameter>\n'
THINK = ("<think>", "</think>")

HERMES = ToolFormat(
    "hermes",
    f"<tool_call>\n{NAME_ARGUMENTS}\n</tool_call>",
    sep="\n",
    detect=(("<tool_call>",), ("<function=", "<arg_key>", "]<]minimax[>[")),
    reasoning=THINK,
    end=("<|im_end|>", "<|end_of_text|>"),
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

COMMAND_A = ToolFormat(
    "command_a",
    '{"tool_call_id": "«i»", "tool_name": "«name»", "parameters": «args»}',
    section=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
    sep=",\n    ",
    detect=(("<|START_ACTION|>",), ("<|START_TEXT|>",)),
    reasoning=("<|START_THINKING|>", "<|END_THINKING|>"),
    end=("<|END_OF_TURN_TOKEN|>",),
    text=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ids="index",
)

ROWS: tuple[ToolFormat, ...] = (
    HERMES,
    LLAMA3_JSON,
    ToolFormat(
        "harmony",
        " to=functions.«name»<|channel|>commentary json<|message|>«args»",
        detect=(("<|channel|>", "<|start|>"), ()),
        reasoning=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        end=("<|call|>", "<|return|>"),
        max_calls=1,
        efforts=("low", "medium", "high"),
        quirks=frozenset({"thinking_key"}),
        written="<|channel|>commentary to=functions.«name» <|constrain|>json<|message|>«args»",
        text=("<|channel|>final<|message|>", ""),
        loose=(
            Loose("", "", "<|channel|>commentary to=functions.«name» json<|message|>«args»"),
            Loose("", "", " to=functions.«name»<|channel|>commentary json<|message|>«args»"),
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
    COMMAND_A,
    replace(
        COMMAND_A,
        name="cohere2_moe",
        detect=(("<|START_ACTION|>", "<|START_TEXT|>"), ()),
        text=("<|START_TEXT|>", "<|END_TEXT|>"),
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
        "«name»\n«args»",
        section=(">>>", ""),
        sep=">>>",
        text=("all\n", ""),
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
    ToolFormat(
        "qwen_xml",
        "<tool_call>\n<function=«name»>\n«args»</function>\n</tool_call>",
        sep="\n",
        args=Tags("<parameter=«key»>\n«value»\n</parameter>\n"),
        detect=(("<tool_call>", "<function=", "<parameter="), ()),
        reasoning=THINK,
        end=("<|im_end|>",),
        loose=(
            Loose("", "", "<function=«name»>\n«args»</function>"),
            Loose("<tool_call>\n", "\n</tool_call>", NAME_ARGUMENTS, args=JSON),
        ),
    ),
    ToolFormat(
        "gemma4",
        "<|tool_call>call:«name»«args»<tool_call|>",
        args=Quoted('<|"|>'),
        detect=(("<|tool_call>call:",), ()),
        reasoning=("<|channel>thought\n", "<channel|>"),
        end=("<turn|>", "<|tool_response>"),
    ),
    ToolFormat(
        "functiongemma",
        "<start_function_call>call:«name»«args»<end_function_call>",
        args=Quoted("<escape>"),
        detect=(("<start_function_call>",), ()),
        end=("<end_of_turn>", "<start_function_response>"),
    ),
    ToolFormat(
        "glm45",
        "<tool_call>«name»\n«args»</tool_call>",
        sep="\n",
        args=Tags("<arg_key>«key»</arg_key>\n<arg_value>«value»</arg_value>\n"),
        detect=(("<arg_key>",), ("tool_sep", "</arg_key><arg_value>")),
        reasoning=THINK,
        end=("<|observation|>", "<|user|>"),
    ),
    ToolFormat(
        "glm47",
        "<tool_call>«name»«args»</tool_call>",
        args=Tags("<arg_key>«key»</arg_key><arg_value>«value»</arg_value>"),
        detect=(("</arg_key><arg_value>",), ("tool_sep",)),
        reasoning=THINK,
        end=("<|observation|>", "<|user|>"),
    ),
    ToolFormat(
        "ling3",
        "<tool_call>«name»\n«args»\n</tool_call>",
        sep="\n",
        args=Tags("<arg_key>«key»</arg_key>\n<arg_value>«value»</arg_value>"),
        detect=(("<arg_key>", "<role>ASSISTANT</role>"), ()),
        reasoning=THINK,
        end=("<|role_end|>",),
    ),
    ToolFormat(
        "hy3",
        "<tool_call:opensource>«name»<tool_sep:opensource>\n«args»</tool_call:opensource>\n",
        section=("<tool_calls:opensource>\n", "</tool_calls:opensource>"),
        args=Tags(
            "<arg_key:opensource>«key»</arg_key:opensource>\n"
            "<arg_value:opensource>«value»</arg_value:opensource>\n"
        ),
        detect=(("tool_sep", "arg_key"), ()),
        reasoning=("<think:opensource>", "</think:opensource>"),
        end=("<｜hy_eos:opensource｜>",),
    ),
    ToolFormat(
        "deepseek_dsml",
        DSML_INVOKE,
        section=("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
        args=Tags(DSML_PARAMETER),
        detect=(("DSML", "function_calls"), ()),
        reasoning=THINK,
    ),
    ToolFormat(
        "deepseek_v4",
        DSML_INVOKE,
        section=("<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"),
        args=Tags(DSML_PARAMETER),
        detect=(("DSML",), ("function_calls",)),
        reasoning=THINK,
    ),
    ToolFormat(
        "kimi_k3",
        '<|open|>call tool="«name»" index="«i1»"<|sep|>«args»<|close|>call<|sep|>',
        section=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        args=Tags(
            '<|open|>argument key="«key»" type="«type»"<|sep|>«value»<|close|>argument<|sep|>'
        ),
        detect=(("<|open|>", "<|end_of_msg|>"), ()),
        reasoning=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        end=("<|end_of_msg|>",),
    ),
    ToolFormat(
        "minimax_m2",
        '<invoke name="«name»">\n«args»</invoke>\n',
        section=("<minimax:tool_call>\n", "</minimax:tool_call>"),
        args=Tags('<parameter name="«key»">«value»</parameter>\n'),
        detect=(("<minimax:tool_call>",), ()),
        reasoning=THINK,
        end=("[e~[",),
    ),
    ToolFormat(
        "seed_oss",
        "<seed:tool_call>\n<function=«name»>\n«args»</function>\n</seed:tool_call>",
        sep="\n",
        args=Tags("<parameter=«key»>«value»</parameter>\n"),
        detect=(("<seed:tool_call>",), ()),
        reasoning=("<seed:think>", "</seed:think>"),
        end=("<seed:eos>",),
    ),
    ToolFormat(
        "minicpm5",
        '<function name="«name»">«args»</function>',
        sep="\n",
        args=Tags('<param name="«key»">«value»</param>'),
        detect=(('<function name="', '<param name="'), ()),
        reasoning=THINK,
        end=("<|im_end|>",),
    ),
    ToolFormat(
        "lfm2",
        "«name»(«args»)",
        section=("<|tool_call_start|>[", "]<|tool_call_end|>"),
        sep=", ",
        args=Keywords("'"),
        detect=(("List of tools: ",), ()),
        reasoning=THINK,
        end=("<|im_end|>",),
    ),
    ToolFormat(
        "lfm2_vl",
        "«name»(«args»)",
        section=("<|tool_call_start|>[", "]<|tool_call_end|>"),
        sep=", ",
        args=Keywords('"'),
        reasoning=THINK,
        end=("<|im_end|>",),
    ),
    PYTHONIC,
    CALL_LIST,
    GENERIC,
)


def row_named(name: str) -> ToolFormat:
    """Raises KeyError."""
    for row in ROWS:
        if row.name == name:
            return row
    raise KeyError(name)
