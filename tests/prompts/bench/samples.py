"""Small cases for tests of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prompts.bench.bfcl import case_of
from prompts.bench.cases import Case

WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "Weather of a city.",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string", "description": "Its name."},
            "days": {"type": "integer"},
            "limit": {"type": "float"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "place": {"type": "dict", "properties": {"lat": {"type": "float"}}},
            "stops": {"type": "array", "items": {"type": "dict"}},
        },
        "required": ["city"],
    },
}
TIME: dict[str, Any] = {
    "name": "get_time",
    "description": "Time in a zone.",
    "parameters": {
        "type": "dict", "properties": {"zone": {"type": "string"}}, "required": ["zone"],
    },
}  # fmt: skip


def row(question: str = "Weather in Porto?", *functions: Any, id: str = "c_0") -> dict[str, Any]:
    """A line of the data set."""
    messages = [[{"role": "user", "content": question}]]
    return {"id": id, "question": messages, "function": list(functions) or [WEATHER]}


def case(
    *truth: dict[str, Any],
    category: str = "simple_python",
    functions: Sequence[Any] = (WEATHER, TIME),
    id: str = "c_0",
) -> Case:
    return case_of(row("Weather in Porto?", *functions, id=id), truth, category)
