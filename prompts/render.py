"""A conversation as the text of a prompt, through one chat template."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Literal

from prompts.adapt import Shaped, shape, tool_dict
from prompts.budget import TemplateFailed, TemplateTooCostly
from prompts.conversation import Conversation, JsonObject, PastCall, Tool
from prompts.facts import ModelFacts
from prompts.guard import CUT, Guard
from prompts.payloads import Json
from prompts.sandbox import ChatTemplate
from prompts.tool_format import ToolFormat, render_calls
from prompts.traits import TemplateTraits, plain
from server.errors import InvalidRequest

log = logging.getLogger(__name__)

_OWN_VARIABLES = (
    "messages tools xml_tools add_generation_prompt bos_token eos_token example_call example_calls"
    " several_calls json_arguments raise_exception strftime_now".split()
)

# Where an effort stands among three.
_RANK = {"none": 0, "minimal": 0, "low": 0, "medium": 1, "high": 2, "xhigh": 2, "max": 2}

Layout = Literal["json", "table"]


@dataclass(frozen=True)
class Listing:
    """Our text that lists tools; `layout` is one of those that its template has."""

    template: ChatTemplate
    layout: Layout = "json"


@dataclass(frozen=True)
class Renderer:
    """One template for one model. Threads may share it.

    `row` is the format in which the prompt shows calls and in which the answer is expected.
    `listing` is our text that lists tools, for a template that lists none.
    """

    template_name: str
    template: ChatTemplate
    row: ToolFormat
    facts: ModelFacts
    traits: TemplateTraits
    guard: Guard
    listing: Listing

    def render(self, conversation: Conversation, *, continue_final: bool = False) -> str:
        """The prompt. Special tokens in it come from the template, never from the conversation.

        With `continue_final` it ends in the text of the last message, an assistant's. Raises
        InvalidRequest if the template takes the conversation in no shape.
        """
        for name in conversation.template_options:
            if name in _OWN_VARIABLES:
                raise InvalidRequest(
                    f"the template option {name!r} is set by the server",
                    param=f"chat_template_kwargs.{name}",
                )
        guarded = self.guard.conversation(conversation)
        if continue_final:
            guarded = _with_cut(guarded)
        text = self._in_any_shape(guarded, generation=not continue_final)
        return _cut(text, len(conversation.messages)) if continue_final else text

    def thinking(self, prompt: str) -> Literal["inside", "possible"] | None:
        """Whether the answer to `prompt` begins within the reasoning, or may open it."""
        opens, closes = (tag.strip() for tag in self.row.reasoning)
        end = prompt.rstrip()
        if not opens or end.endswith(closes):
            return None
        if end.endswith(opens):
            return "inside"
        return "possible" if opens in self.template.source else None

    def row_after(self, prompt: str, *, continues: bool) -> ToolFormat:
        """The format of the answer to `prompt`, without what the prompt has begun already.

        `continues`: it ends in a text that the answer goes on with.
        """
        row, opening = self.row, self.row.section[0]
        if continues:  # nothing is an opening because it comes first
            loose = tuple(way for way in row.loose if way.open + way.call.partition("«")[0])
            row = replace(row, text=("", ""), leads=False, loose=loose)
        if opening and prompt.endswith(opening) and not self.row.leads:
            row = replace(row, section=("", row.section[1]))
        return row

    def in_shape(
        self, guarded: Conversation, traits: TemplateTraits, *, generation: bool = True
    ) -> str:
        """The prompt in one shape. Raises TemplateFailed."""
        if traits.tool_schemas == "typed" and not all(map(_is_typed, guarded.tools)):
            traits = replace(traits, tools="ours")
        listing = ""
        if traits.tools == "ours" and guarded.tools:
            listing = self._listing(guarded)
        shaped = shape(guarded, self.row, traits, listing)
        text = self.template.render(
            {
                **self._switched(guarded.template_options),
                **self._tool_variables(shaped, traits),
                "messages": shaped.messages,
                "add_generation_prompt": generation,
                "bos_token": self.facts.bos,
                "eos_token": self.facts.eos,
            }
        )
        if self.facts.adds_bos and not text.startswith(self.facts.bos):
            return self.facts.bos + text
        return text

    def _in_any_shape(self, guarded: Conversation, *, generation: bool) -> str:
        """The shape that was found for the template; should it fail after all, plainer ones."""
        ours = replace(self.traits, tools="ours")
        shapes = list(dict.fromkeys((self.traits, ours, plain(self.traits))))
        reasons: list[str] = []
        while shapes:
            traits = shapes.pop(0)
            try:
                return self.in_shape(guarded, traits, generation=generation)
            except TemplateFailed as exc:
                log.warning("template %s refused a conversation: %s", self.template_name, exc)
                reasons.append(str(exc))
                if isinstance(exc, TemplateTooCostly):
                    shapes = shapes[-1:]
        raise InvalidRequest(
            f"the chat template {self.template_name} cannot show this conversation: {reasons[0]}",
            param="messages",
        )

    def _switched(self, options: JsonObject) -> JsonObject:
        """`reasoning_effort` under the names of the switches that templates have."""
        effort = options.get("reasoning_effort")
        if effort is None:
            return options
        thinks = effort != "none"
        switches: JsonObject = {"enable_thinking": thinks, "thinking": thinks}
        if not thinks:
            switches["thinking_budget"] = 0
        if self.row.efforts:
            options = {**options, "reasoning_effort": self.row.efforts[_RANK.get(effort, 1)]}
        return {**switches, **options}

    def _tool_variables(self, shaped: Shaped, traits: TemplateTraits) -> dict[str, object]:
        variables: dict[str, object] = _call_example(self.row)
        if shaped.tools or traits.no_tools == "empty":
            # SmolLM3 calls it `xml_tools`.
            variables.update(tools=shaped.tools, xml_tools=shaped.tools)
        elif traits.no_tools == "null":
            variables.update(tools=None)
        return variables

    def _listing(self, guarded: Conversation) -> str:
        tools = [tool_dict(tool) for tool in guarded.tools]
        required = [tool["function"]["parameters"].get("required") for tool in tools]
        variables = {
            "tools": tools,
            "layout": self.listing.layout,
            "needed": [dict.fromkeys(names if _is_names(names) else ()) for names in required],
        }
        return self.listing.template.render({**_call_example(self.row), **variables})


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_typed(tool: Tool) -> bool:
    """Whether every parameter has one type that is stated."""
    properties = tool.parameters.get("properties", {})
    return isinstance(properties, dict) and all(
        isinstance(schema, dict) and isinstance(schema.get("type"), str)
        for schema in properties.values()
    )


def _call_example(row: ToolFormat) -> dict[str, object]:
    """How a template may show a call: one, and where calls share a section, two."""
    json_arguments = isinstance(row.args, Json)
    first, second = (
        PastCall(
            f"functions.NAME{number}:{index}" if row.ids == "kimi" else call_id,
            f"NAME{number}",
            f"ARGUMENTS{number}" if json_arguments else {f"PARAMETER{number}": f"VALUE{number}"},
        )
        for index, (call_id, number) in enumerate([("a1b2c3d4e", ""), ("f5g6h7i8j", "2")])
    )
    several = row.max_calls != 1
    return {
        "example_call": render_calls(row, [first]),
        "example_calls": render_calls(row, [first, second]) if several and row.section[0] else "",
        "several_calls": several,
        "json_arguments": json_arguments,
    }


def _with_cut(guarded: Conversation) -> Conversation:
    last = guarded.messages[-1] if guarded.messages else None
    if last is None or last.role != "assistant" or last.calls:
        raise InvalidRequest(
            "only an assistant message without tool calls can be continued",
            param=f"messages[{max(0, len(guarded.messages) - 1)}]",
        )
    marked = replace(last, content=last.content + CUT)
    return replace(guarded, messages=(*guarded.messages[:-1], marked))


def _cut(text: str, count: int) -> str:
    before, cut, _ = text.rpartition(CUT)
    if not cut:
        raise InvalidRequest(
            "the chat template does not show the message that is to be continued",
            param=f"messages[{count - 1}]",
        )
    return before
