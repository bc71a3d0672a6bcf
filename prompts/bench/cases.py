"""What is asked, what may be called, and which answer is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

JsonObject = dict[str, Any]
Language = Literal["python", "java", "javascript"]
# calls: exactly the expected ones; none: no call is right; some: any call is right.
Need = Literal["calls", "none", "some"]


@dataclass(frozen=True)
class ExpectedCall:
    """A call that is right. `accepted` has the right values of each parameter; an empty text among
    them: the parameter may be left out. A parameter that is not in it must not be given.

    Inside of an object every member again has a list of accepted values.
    """

    name: str
    accepted: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Case:
    """One request. `tools` are as the API takes them; `types` has each tool's parameters in the
    data set's own words, by which values are compared.

    `in_any_order`: of several calls each must match one expected call, whichever.
    """

    id: str
    category: str
    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...]
    types: Mapping[str, JsonObject]
    need: Need
    expected: tuple[ExpectedCall, ...] = ()
    language: Language = "python"
    in_any_order: bool = False

    def parameters(self, name: str) -> JsonObject | None:
        """JSON Schema of a tool's parameters; None if there is no such tool."""
        for tool in self.tools:
            if tool["function"]["name"] == name:
                return dict(tool["function"].get("parameters") or {})
        return None


@dataclass(frozen=True)
class Call:
    """A call that was made; `arguments` are parsed."""

    name: str
    arguments: JsonObject
