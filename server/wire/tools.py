"""Tools of a chat request, and the choice among them as one typed value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

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
from server.wire.messages import FunctionKind
from server.wire.schemas import NotASchema, as_parameters

MAX_ALLOWED = 4096

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
    """`strict` is accepted: arguments always satisfy the schema, with or without it."""

    name: Annotated[str, AfterValidator(_check_name)]
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict, validate_default=True)
    strict: bool = False

    @field_validator("parameters", mode="before")
    @classmethod
    def _object_schema(cls, value: Any, info: ValidationInfo) -> JsonObject:
        try:
            return as_parameters(value)
        except NotASchema as exc:
            raise wrong(f"the schema of {info.data.get('name', 'this tool')!r}: {exc}") from None


class WireTool(Wire):
    type: FunctionKind = "function"
    function: FunctionDefinition


class FunctionName(Wire):
    name: str


def _nested(key: str, *inner: str) -> BeforeValidator:
    """Accept the flat spelling of the Responses API: the keys beside `type` instead of in `key`."""

    def nest(data: Any) -> Any:
        if not isinstance(data, dict) or data.get(key) is not None:
            return data
        found = {name: data[name] for name in inner if name in data}
        return {"type": data.get("type"), key: found} if found else data

    return BeforeValidator(nest)


class _NamedTool(Wire):
    type: FunctionKind = "function"
    function: FunctionName


NamedTool = Annotated[_NamedTool, _nested("function", "name")]


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
        name = tool.function.name
        if name in seen:
            raise InvalidRequest(
                f"tools[{index}] and tools[{seen[name]}] are both called {name!r}",
                param=f"tools[{index}].function.name",
            )
        seen[name] = index


def resolve_choice(
    choice: str | _NamedTool | _AllowedChoice | None,
    tools: tuple[WireTool, ...],
    *,
    parallel: bool,
) -> ToolChoice:
    """What may be called. Absent means auto; without tools auto and none come to the same.

    Raises InvalidRequest for a name that no tool has, and for a call demanded without tools.
    """
    offered = tuple(tool.function.name for tool in tools)
    if choice is None or isinstance(choice, str):
        if choice == "required" and not tools:
            raise InvalidRequest("tool_choice is required, but there are no tools", param=_PARAM)
        if choice == "none" or not tools:
            return ToolChoice("none")
        return ToolChoice("required" if choice == "required" else "auto", offered, parallel)
    if isinstance(choice, _NamedTool):
        return ToolChoice("required", _known((choice.function.name,), offered), parallel=False)
    allowed = choice.allowed_tools
    names = _known(tuple(tool.function.name for tool in allowed.tools), offered)
    return ToolChoice(allowed.mode, names, parallel)


_PARAM = "tool_choice"


def _known(names: tuple[str, ...], offered: tuple[str, ...]) -> tuple[str, ...]:
    if not offered:
        raise InvalidRequest("tool_choice names a tool, but there are no tools", param=_PARAM)
    known = set(offered)
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise InvalidRequest(
            f"tool_choice names {clipped(unknown, 140)!r}, which is none of the tools: "
            f"{listed(offered)}",
            param=_PARAM,
        )
    wanted = set(names)
    return tuple(name for name in offered if name in wanted)
