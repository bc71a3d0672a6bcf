"""`functions` and `function_call`: how requests offered tools before there were `tools`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from server.errors import InvalidRequest
from server.wire.base import LIST, Wire, clipped, listed
from server.wire.tools import FunctionDefinition, ToolChoice, ToolName


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "<mode>"
    return "<named>" if isinstance(value, dict | ToolName) else None


FunctionChoice = Annotated[
    Annotated[Literal["none", "auto"], Tag("<mode>")] | Annotated[ToolName, Tag("<named>")],
    Discriminator(
        _kind,
        custom_error_type="wrong",
        custom_error_message="must be none, auto or an object with the name of a function",
    ),
]


class LegacyFields(Wire):
    """The answer to a request with `functions` has one call at most, as `function_call`."""

    functions: Annotated[tuple[FunctionDefinition, ...], *LIST] = ()
    function_call: FunctionChoice | None = None


def check_legacy(fields: LegacyFields, *, has_tools: bool, tool_choice: object) -> None:
    """Raises InvalidRequest for a request that speaks in both ways, or of no function."""
    call, functions = fields.function_call, fields.functions
    if has_tools and functions:
        raise InvalidRequest("functions and tools exclude each other: use tools", param="functions")
    if has_tools and call not in (None, "auto"):
        raise InvalidRequest(
            "function_call goes with functions; with tools use tool_choice", param="function_call"
        )
    if functions and tool_choice not in (None, "auto"):
        raise InvalidRequest(
            "tool_choice goes with tools; with functions use function_call", param="tool_choice"
        )
    seen: dict[str, int] = {}
    for index, function in enumerate(functions):
        if function.name in seen:
            first = seen[function.name]
            raise InvalidRequest(
                f"functions[{first}] and functions[{index}] are both called {function.name!r}",
                param=f"functions[{index}].name",
            )
        seen[function.name] = index
    if isinstance(call, ToolName) and call.name not in seen:
        raise InvalidRequest(
            f"function_call names {clipped(call.name, 140)!r}, which is none of the functions: "
            f"{listed(tuple(seen)) or '(there are none)'}",
            param="function_call",
        )


def legacy_choice(fields: LegacyFields) -> ToolChoice:
    """The choice of a request that has `functions` and passed `check_legacy`."""
    call = fields.function_call
    if isinstance(call, ToolName):
        return ToolChoice("required", (call.name,), parallel=False)
    if call == "none":
        return ToolChoice("none")
    return ToolChoice("auto", tuple(one.name for one in fields.functions), parallel=False)
