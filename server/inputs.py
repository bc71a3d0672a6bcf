"""What is special of some tools: inputs that a grammar holds, and what clients see of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from server.arguments import Completed, Input, View
from server.guided import Matcher
from server.plan import Callee
from server.schema.checker import Complaint
from server.schema.defaults import Defaults
from server.values import Checker

INPUT = "input"


class InputChecker:
    """The checker of a custom tool: `matcher` is one for the grammar of its input, at the start."""

    def __init__(self, arguments: Checker, matcher: Matcher, tokenizer: Any) -> None:
        self._arguments = arguments
        self._matcher = matcher
        self._tokenizer = tokenizer

    def complaints(self, value: Any) -> list[Complaint]:
        found = self._arguments.complaints(value)
        if found or self._matches(value[INPUT]):
            return found
        return [Complaint("grammar", (INPUT,))]

    def _matches(self, text: str) -> bool:
        matcher = self._matcher.deep_copy()
        tokens = self._tokenizer.greedy_tokenize(text)
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def views_of(
    tools: Iterable[Callee], checkers: Mapping[str, Checker]
) -> dict[str, Callable[[], View]]:
    """What a client sees of the arguments of tools, where that is not what was written."""
    views: dict[str, Callable[[], View]] = {}
    for tool in tools:
        if tool.custom:
            views[tool.name] = Input
        elif tool.defaults and tool.name in checkers:
            defaults = Defaults(tool.parameters, checkers[tool.name])
            views[tool.name] = partial(Completed, defaults.complete, appended=not defaults.nested)
    return views
