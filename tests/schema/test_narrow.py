"""Numbers that the back end reads otherwise: with it, nothing invalid is told."""

from __future__ import annotations

from typing import Any

import pytest

from prompts.formats import HERMES
from server.constraint import ConstraintCompiler
from server.plan import Callee, Plan
from server.schema.prepare import prepare
from tests.driving import verdict
from tests.fakes import byte_vocabulary

JsonObject = dict[str, Any]
NUMBER = {"type": "number"}
HUNDREDTHS = {"type": "number", "multipleOf": 0.01}


@pytest.fixture(scope="module")
def compiler() -> ConstraintCompiler:
    return ConstraintCompiler(byte_vocabulary(), can_retry=True)


def parameters(schema: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"v": schema}, "required": ["v"]}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({**NUMBER, "exclusiveMinimum": 0, "maximum": 0.5}, ["0.1", "0.5"], ["0", "0.0"]),
        ({**NUMBER, "exclusiveMinimum": 1, "exclusiveMaximum": 1.5}, ["1.2"], ["1", "1.0"]),
        ({**NUMBER, "minimum": -1.5, "exclusiveMaximum": -1}, ["-1.2"], ["-1"]),
        ({**NUMBER, "minimum": -0.5, "exclusiveMaximum": 0}, ["-0.2"], ["-0", "0"]),
        ({**HUNDREDTHS, "exclusiveMinimum": 0.005, "maximum": 0.5}, ["0.01"], ["0", "0.00"]),
        ({**HUNDREDTHS, "minimum": 0.005, "maximum": 0.015}, ["0.01"], ["0", "0.005", "0.02"]),
        ({**HUNDREDTHS, "minimum": 0, "exclusiveMaximum": 0.0201}, ["0", "0.02"], ["0.03"]),
        ({**HUNDREDTHS, "minimum": -0.0249, "maximum": -0.011}, ["-0.02"], ["-0.01", "-0.03"]),
    ],
)
def test_bounds_hold_as_they_are_written(
    compiler: ConstraintCompiler, schema: JsonObject, valid: list[str], invalid: list[str]
) -> None:
    callee = Callee("f", parameters(schema), "tools[0].function.parameters")
    constraint = compiler.compile_now(Plan(HERMES, "required", (callee,)))

    def found(number: str) -> str:
        text = f'<tool_call>\n{{"name": "f", "arguments": {{"v": {number}}}}}\n</tool_call>'
        return verdict(constraint, byte_vocabulary(), text)

    assert {found(number) for number in valid} == {"accepted"}
    assert {found(number) for number in invalid} <= {"grammar", "check"}


@pytest.mark.parametrize(
    "schema",
    [
        {**NUMBER, "exclusiveMinimum": 0},
        {**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {**NUMBER, "exclusiveMinimum": 0.5, "maximum": 0.75},
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 0.5},
        {**HUNDREDTHS, "minimum": 0.005, "maximum": 0.015},
    ],
)
def test_where_the_back_end_holds_the_bounds_nothing_is_left_to_check(schema: JsonObject) -> None:
    assert not prepare(parameters(schema), arguments=True).afterwards
