"""The same cases with one thing about their tools changed, to see what it is worth."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prompts.bench.cases import Case, JsonObject
from server.errors import SetupError

PLAIN = "plain"
VARIANTS = (PLAIN, "no-descriptions", "shuffled", "distractors-N")
MOST_DISTRACTORS = 200


def check_variant(variant: str) -> None:
    """Raises SetupError if there is no such variant."""
    if variant not in VARIANTS[:-1] and not 0 < _distractors(variant) <= MOST_DISTRACTORS:
        raise SetupError(
            f"there is no variant {variant!r}",
            hint=f"They are {', '.join(VARIANTS)}, with a number up to {MOST_DISTRACTORS} for N.",
        )


def _distractors(variant: str) -> int:
    count = variant.removeprefix("distractors-")
    return int(count) if count != variant and count.isdecimal() else 0


def vary(case: Case, variant: str, pool: Sequence[Case]) -> Case:
    """The case as the variant has it; the same one each time.

    Distractors are tools of other cases in `pool`, in an order drawn together with the case's own.
    Where no call is needed, one of them may happen to fit.
    """
    draw = random.Random(f"{case.id} {variant}")
    if variant == "no-descriptions":
        return replace(case, tools=tuple(_bare(tool) for tool in case.tools))
    tools = list(case.tools)
    if count := _distractors(variant):
        others = {tool["function"]["name"]: tool for one in pool for tool in one.tools}
        for tool in case.tools:
            others.pop(tool["function"]["name"], None)
        tools += draw.sample(list(others.values()), min(count, len(others)))
    if variant != PLAIN:
        draw.shuffle(tools)
    return replace(case, tools=tuple(tools))


def _bare(tool: JsonObject) -> JsonObject:
    function = {key: one for key, one in tool["function"].items() if key != "description"}
    if "parameters" in function:
        function["parameters"] = _bare_schema(function["parameters"])
    return {**tool, "function": function}


def _bare_schema(schema: Any) -> Any:
    """Without descriptions; a property that has this name stays."""
    if not isinstance(schema, dict):
        return schema
    bare = {key: one for key, one in schema.items() if key != "description"}
    if isinstance(bare.get("properties"), dict):
        bare["properties"] = {key: _bare_schema(x) for key, x in bare["properties"].items()}
    if "items" in bare:
        bare["items"] = _bare_schema(bare["items"])
    return bare
