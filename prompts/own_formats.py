"""The rows of our own prompts, for models that were trained on none of these ways to call."""

from __future__ import annotations

from dataclasses import replace

from prompts.payloads import JSON, Keywords
from prompts.tool_format import Loose, ToolFormat

NAME_ARGUMENTS = '{"name": "«name»", "arguments": «args»}'

# The last resort: also for models without any chat template.
GENERIC = ToolFormat(
    "generic",
    NAME_ARGUMENTS,
    sep="\n",
    end=("\n### ",),
    loose=(Loose("```json\n", "\n```", NAME_ARGUMENTS), Loose("```\n", "\n```", NAME_ARGUMENTS)),
)

# In a model's own turns, where we ask for JSON and nothing else. Many were trained on tags.
BARE_JSON = replace(
    GENERIC,
    name="bare_json",
    end=(),
    loose=(*GENERIC.loose, Loose("<tool_call>\n", "\n</tool_call>", NAME_ARGUMENTS)),
)

# Python's calls in a list, which models for code write as they write code: one for each thing that
# is asked for, where with an object a line the small ones stop after the first.
PYTHON_CALL = "«name»(«args»)"
PYTHONIC = ToolFormat(
    "pythonic",
    PYTHON_CALL,
    section=("[", "]"),
    sep=", ",
    args=Keywords('"'),
    leads=True,
    loose=(
        Loose("", "", PYTHON_CALL),
        Loose("```python\n[", "]\n```", PYTHON_CALL, sep=", "),
        Loose("```python\n", "\n```", PYTHON_CALL),
    ),
)

# The same with the arguments as JSON, which a grammar holds to any schema.
CALL_LIST = replace(
    PYTHONIC,
    name="call_list",
    args=JSON,
    loose=(
        Loose("", "", PYTHON_CALL),
        Loose("```python\n[", "]\n```", PYTHON_CALL, sep=", "),
        Loose("```python\n", "\n```", PYTHON_CALL),
        Loose("```json\n[", "]\n```", PYTHON_CALL, sep=", "),
    ),
)
