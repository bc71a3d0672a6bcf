"""The same cases with one thing about their tools changed, to see what it is worth."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from prompts.bench.cases import Case, JsonObject
from server.errors import SetupError

PLAIN = "plain"
VARIANTS = (PLAIN, "no-descriptions", "no-examples", "shuffled", "distractors-N")
MOST_DISTRACTORS = 200
# In a description: "(e.g. Porto)", ", such as Porto", ". Example: Porto" and their like, to the
# end of the brackets or of the sentence.
_WORDS = r"(?:e\.g\.|eg:|for (?:example|instance)|such as|examples?(?: values?)?:|like ['\"])"
_EXAMPLE = re.compile(
    rf"\s*\((?:[^()]*[\s,;])?{_WORDS}[^()]*\)|[,;:.]?\s+{_WORDS}(?:\.[^\s]|[^.])*",
    re.IGNORECASE,
)


def check_variant(variant: str) -> None:
    """Raises SetupError if there is no such variant."""
    for part in variant.split("+"):
        if part not in VARIANTS[:-1] and not 0 < _distractors(part) <= MOST_DISTRACTORS:
            raise SetupError(
                f"there is no variant {part!r}",
                hint=f"They are {', '.join(VARIANTS)}, with a number up to {MOST_DISTRACTORS} for"
                " N. Several are joined by +.",
            )


def _distractors(variant: str) -> int:
    count = variant.removeprefix("distractors-")
    return int(count) if count != variant and count.isdecimal() else 0


def vary(case: Case, variant: str, pool: Sequence[Case]) -> Case:
    """The case as the variant has it; the same one each time. Of several joined by + each changes
    what the one before it made.

    Distractors are tools of other cases in `pool`, in an order drawn together with the case's own.
    Where no call is needed, one of them may happen to fit. Raises SetupError if there are too few.
    """
    for part in variant.split("+"):
        case = _vary(case, part, pool)
    return case


def _vary(case: Case, variant: str, pool: Sequence[Case]) -> Case:
    draw = random.Random(f"{case.id} {variant}")
    if variant in ("no-descriptions", "no-examples"):
        change = _undescribed if variant == "no-descriptions" else _without_examples
        return replace(case, tools=tuple(_changed(tool, change) for tool in case.tools))
    tools = list(case.tools)
    if count := _distractors(variant):
        others = {tool["function"]["name"]: tool for one in pool for tool in one.tools}
        for tool in case.tools:
            others.pop(tool["function"]["name"], None)
        if len(others) < count:
            raise SetupError(
                f"{variant}: there are only {len(others)} tools besides those of {case.id}",
                hint="Name more data sets, or a smaller number.",
            )
        tools += draw.sample(list(others.values()), count)
    if variant != PLAIN:
        draw.shuffle(tools)
    return replace(case, tools=tuple(tools))


Change = Callable[[JsonObject], JsonObject]


def _changed(tool: JsonObject, change: Change) -> JsonObject:
    function = change(tool["function"])
    if "parameters" in function:
        function["parameters"] = _changed_schema(function["parameters"], change)
    return {**tool, "function": function}


def _changed_schema(schema: Any, change: Change) -> Any:
    """Each schema within is changed; a property that has the name of a keyword stays."""
    if not isinstance(schema, dict):
        return schema
    changed = change(schema)
    if isinstance(changed.get("properties"), dict):
        inner = changed["properties"].items()
        changed["properties"] = {key: _changed_schema(one, change) for key, one in inner}
    if "items" in changed:
        changed["items"] = _changed_schema(changed["items"], change)
    return changed


def _undescribed(schema: JsonObject) -> JsonObject:
    return {key: one for key, one in schema.items() if key != "description"}


def _without_examples(schema: JsonObject) -> JsonObject:
    kept = {key: one for key, one in schema.items() if key not in ("example", "examples")}
    if isinstance(kept.get("description"), str):
        kept["description"] = _EXAMPLE.sub("", kept["description"])
    return kept
