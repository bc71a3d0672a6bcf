"""What an answer may be, as the compiler of constraints is asked for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from prompts.formats import ToolFormat
from server.errors import InvalidRequest

JsonObject = dict[str, Any]
Mode = Literal["none", "auto", "required"]


@dataclass(frozen=True)
class Callee:
    """A tool that may be called; `path` is where the request says what its arguments may be.

    A `custom` tool has one argument, `input`, which clients get as it is. `lark` is the grammar
    that it satisfies, `pattern` the client's text of the pattern in the schema, if any. `defaults`:
    absent members get the default that the schema names.
    """

    name: str
    parameters: JsonObject
    path: str
    custom: bool = False
    lark: str | None = None
    pattern: str | None = None
    defaults: bool = False


@dataclass(frozen=True)
class Plan:
    """What an answer may be. `answer`: the schema that a text must satisfy, if any.

    `answer_path` is where the request has it.
    """

    row: ToolFormat
    mode: Mode
    tools: tuple[Callee, ...] = ()
    parallel: bool = True
    answer: JsonObject | None = None
    answer_path: str = "response_format.json_schema.schema"

    def key(self) -> str:
        tools = [
            (tool.name, tool.parameters, tool.custom, tool.lark, tool.pattern, tool.defaults)
            for tool in self.tools
        ]
        row = (self.row.name, self.row.section, self.row.text)
        return json.dumps([row, self.mode, tools, self.parallel, self.answer])

    @property
    def parts(self) -> dict[str, Part]:
        """The schemas of the plan by the name of their tool, that of a text as ""."""
        tools = self.tools if self.mode != "none" else ()
        parts = {tool.name: Part.of(tool) for tool in tools}
        if self.answer is not None:
            title = self.answer_path.partition(".")[0]
            parts[""] = Part(self.answer, False, title, self.answer_path)
        return parts


@dataclass(frozen=True)
class Part:
    """A schema of a request, and how messages speak of it.

    `lark` is a grammar of `input` too, `pattern` a text that must be a pattern by itself.
    """

    schema: JsonObject
    arguments: bool
    title: str
    path: str
    lark: str | None = None
    pattern: str | None = None

    @classmethod
    def of(cls, tool: Callee) -> Part:
        what = "input" if tool.custom else "parameters"
        title = f"the {what} of tool {tool.name!r}"
        return cls(tool.parameters, True, title, tool.path, tool.lark, tool.pattern)

    def key(self) -> str:
        return json.dumps([self.arguments, self.schema, self.lark, self.pattern])

    def refused(self, why: ValueError) -> InvalidRequest:
        return InvalidRequest(f"{self.title} cannot be enforced: {why}", param=self.path)
