"""What is asked, what may be called, and which answer is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from server.errors import SetupError

JsonObject = dict[str, Any]
Language = Literal["python", "java", "javascript"]
# calls: exactly the expected ones; none: no call is right; some: any call is right.
Need = Literal["calls", "none", "some"]
# Which rules say whether calls are right: those of BFCL's checker, or ours for a user's own cases.
Rules = Literal["bfcl", "own"]


@dataclass(frozen=True)
class Exact:
    """A value of an own case that counts only just as it is, its texts letter by letter."""

    exact: Any

    def __repr__(self) -> str:
        return f"exactly {self.exact!r}"


@dataclass(frozen=True)
class ExpectedCall:
    """A call that is right. `accepted` has the right values of each parameter; an empty text among
    them: the parameter may be left out. A parameter that is not in it must not be given.

    Inside of an object every member again has a list of accepted values. In an own case that holds
    at every depth, and a text that has to be empty is an `Exact`, as is what must be just so.
    """

    name: str
    accepted: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Case:
    """One request. `tools` are as the API takes them; `types` has each tool's parameters in the
    data set's own words, by which values are compared.

    `in_any_order`: of several calls each must match one expected call, whichever. `source` is where
    the case was read, for messages.
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
    rules: Rules = "bfcl"
    source: str = ""

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


def check_unique(cases: Iterable[Case]) -> None:
    """Raises SetupError for two cases of one id, whose rows could not be told apart."""
    seen: dict[str, Case] = {}
    for case in cases:
        first = seen.setdefault(case.id, case)
        if first is not case:
            places = [one.source or one.category for one in (first, case)]
            raise SetupError(
                f"two cases have the id {case.id}: one of {places[0]}, one of {places[1]}",
                hint="Ids begin with the name of the file: rename one, or name each file once.",
            )
