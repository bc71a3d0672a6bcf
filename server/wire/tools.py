"""Tools of a chat request, and the choice among them as one typed value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)

from server.errors import InvalidRequest
from server.wire.base import LIST, Wire, clipped, listed, wrong
from server.wire.body import JsonObject
from server.wire.custom import (
    FreeFormat,
    InputFormat,
    grammar_of,
    held_parameters,
    shown_parameters,
)
from server.wire.messages import FunctionKind
from server.wire.schemas import NotASchema, as_parameters

MAX_ALLOWED = 4096
APPLY_DEFAULTS = "x-callwright-apply-defaults"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@dataclass(frozen=True)
class ToolChoice:
    """What the answer may be: text only, text or calls, or calls only.

    `names` are the tools that may be called, in the order of the request; empty for `none`. Unless
    `parallel`, the answer ends after one call: so it is where a tool was named.
    """

    mode: Literal["none", "auto", "required"]
    names: tuple[str, ...] = ()
    parallel: bool = True


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise wrong(
            f"{clipped(name, 140)!r} will not do, a tool's name is 1 to 128 of letters, digits, "
            "'_', '.' and '-'"
        )
    return name


class FunctionDefinition(Wire):
    """`strict` is accepted: arguments always satisfy the schema, with or without it.

    `apply_defaults`: members that a call leaves out get their defaults. Also a key of the schema.
    """

    name: Annotated[str, AfterValidator(_check_name)]
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict, validate_default=True)
    strict: bool = False
    apply_defaults: bool | None = Field(None, alias=APPLY_DEFAULTS)

    @field_validator("parameters", mode="before")
    @classmethod
    def _object_schema(cls, value: Any, info: ValidationInfo) -> JsonObject:
        try:
            schema = as_parameters(value)
        except NotASchema as exc:
            raise wrong(f"the schema of {info.data.get('name', 'this tool')!r}: {exc}") from None
        if not isinstance(schema.get(APPLY_DEFAULTS, False), bool):
            raise wrong(f"{APPLY_DEFAULTS} must be true or false")
        return schema


class FunctionTool(Wire):
    """What every tool has: `shown` is the schema of its arguments as a prompt has it, `held` the
    one that they satisfy, `path` where in the tool it stands.
    """

    path: ClassVar = "function.parameters"
    lark: ClassVar = None
    pattern: ClassVar = None

    type: FunctionKind = "function"
    function: FunctionDefinition

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def description(self) -> str:
        return self.function.description

    @property
    def shown(self) -> JsonObject:
        return {
            key: value for key, value in self.function.parameters.items() if key != APPLY_DEFAULTS
        }

    @property
    def held(self) -> JsonObject:
        return self.function.parameters

    @property
    def apply_defaults(self) -> bool | None:
        """None where the tool does not say."""
        said: bool | None = self.function.parameters.get(APPLY_DEFAULTS)
        return self.function.apply_defaults if said is None else said


class CustomDefinition(Wire):
    name: Annotated[str, AfterValidator(_check_name)]
    description: str = ""
    format: InputFormat = FreeFormat()


class CustomTool(Wire):
    """`lark` is the grammar that the input satisfies beside the schema."""

    path: ClassVar = "custom.format.grammar.definition"
    apply_defaults: ClassVar = None

    type: Literal["custom"]
    custom: CustomDefinition

    @property
    def name(self) -> str:
        return self.custom.name

    @property
    def description(self) -> str:
        return self.custom.description

    @property
    def shown(self) -> JsonObject:
        return shown_parameters(self.custom.format)

    @property
    def held(self) -> JsonObject:
        return held_parameters(self.custom.format)

    @property
    def lark(self) -> str | None:
        return grammar_of(self.custom.format, "lark")

    @property
    def pattern(self) -> str | None:
        """The pattern of the client; in the schema it is one for the whole input."""
        return grammar_of(self.custom.format, "regex")


def _kind_of_tool(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "<custom>" if kind == "custom" else "<function>"


WireTool = Annotated[
    Annotated[FunctionTool, Tag("<function>")] | Annotated[CustomTool, Tag("<custom>")],
    Discriminator(_kind_of_tool),
]


class ToolName(Wire):
    name: str


def _nested(key: str, *inner: str) -> BeforeValidator:
    """Accept the flat spelling of the Responses API: the keys beside `type` instead of in `key`."""

    def nest(data: Any) -> Any:
        if not isinstance(data, dict) or data.get(key) is not None:
            return data
        found = {name: data[name] for name in inner if name in data}
        return {"type": data.get("type"), key: found} if found else data

    return BeforeValidator(nest)


class _NamedFunction(Wire):
    type: FunctionKind = "function"
    function: ToolName

    @property
    def name(self) -> str:
        return self.function.name


class _NamedCustom(Wire):
    type: Literal["custom"]
    custom: ToolName

    @property
    def name(self) -> str:
        return self.custom.name


_Named = _NamedFunction | _NamedCustom
NamedTool = Annotated[
    Annotated[_NamedFunction, _nested("function", "name"), Tag("<function>")]
    | Annotated[_NamedCustom, _nested("custom", "name"), Tag("<custom>")],
    Discriminator(_kind_of_tool),
]


class AllowedTools(Wire):
    mode: Literal["auto", "required"]
    tools: Annotated[tuple[NamedTool, ...], *LIST, Field(min_length=1, max_length=MAX_ALLOWED)]


class _AllowedChoice(Wire):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


def _kind_of_choice(value: Any) -> str | None:
    if isinstance(value, str):
        return "<mode>"
    kind = value.get("type") if isinstance(value, dict) else None
    return {"allowed_tools": "<allowed>", "function": "<named>", "custom": "<named>"}.get(str(kind))


WireChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<mode>")]
    | Annotated[NamedTool, Tag("<named>")]
    | Annotated[_AllowedChoice, _nested("allowed_tools", "mode", "tools"), Tag("<allowed>")],
    Discriminator(
        _kind_of_choice,
        custom_error_type="wrong",
        custom_error_message="must be none, auto, required, a function or allowed_tools",
    ),
]


def check_names(tools: tuple[WireTool, ...]) -> None:
    """Raises InvalidRequest that names a tool which occurs twice."""
    seen: dict[str, int] = {}
    for index, tool in enumerate(tools):
        if tool.name in seen:
            raise InvalidRequest(
                f"tools[{index}] and tools[{seen[tool.name]}] are both called {tool.name!r}",
                param=f"tools[{index}].{tool.type}.name",
            )
        seen[tool.name] = index


def resolve_choice(
    choice: str | _Named | _AllowedChoice | None,
    tools: tuple[WireTool, ...],
    *,
    parallel: bool,
) -> ToolChoice:
    """What may be called. Absent means auto; without tools auto and none come to the same.

    Raises InvalidRequest for a name that no tool of that kind has, and for a call demanded without
    tools.
    """
    offered = tuple(tool.name for tool in tools)
    if choice is None or isinstance(choice, str):
        if choice == "required" and not tools:
            raise InvalidRequest("tool_choice is required, but there are no tools", param=_PARAM)
        if choice == "none" or not tools:
            return ToolChoice("none")
        return ToolChoice("required" if choice == "required" else "auto", offered, parallel)
    if isinstance(choice, _NamedFunction | _NamedCustom):
        return ToolChoice("required", _known((choice,), tools), parallel=False)
    allowed = choice.allowed_tools
    return ToolChoice(allowed.mode, _known(allowed.tools, tools), parallel)


_PARAM = "tool_choice"


def _known(named: tuple[_Named, ...], tools: tuple[WireTool, ...]) -> tuple[str, ...]:
    if not tools:
        raise InvalidRequest("tool_choice names a tool, but there are no tools", param=_PARAM)
    kinds = {tool.name: tool.type for tool in tools}
    for one in named:
        name = clipped(one.name, 140)
        if one.name not in kinds:
            raise InvalidRequest(
                f"tool_choice names {name!r}, which is none of the tools: {listed(tuple(kinds))}",
                param=_PARAM,
            )
        if kinds[one.name] != one.type:
            raise InvalidRequest(
                f"tool_choice names {name!r} as a {one.type} tool, but it is of type"
                f" {kinds[one.name]}",
                param=_PARAM,
            )
    wanted = {one.name for one in named}
    return tuple(name for name in kinds if name in wanted)
