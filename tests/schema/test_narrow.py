"""Numbers that the back end reads otherwise: with it, nothing invalid is told."""

from __future__ import annotations

from typing import Any

import pytest

from prompts.formats import HERMES
from server.constraint import ConstraintCompiler
from server.errors import InvalidRequest
from server.plan import Callee, Plan
from server.schema.prepare import prepare
from tests.driving import verdict
from tests.fakes import byte_vocabulary

JsonObject = dict[str, Any]
NUMBER = {"type": "number"}
OVER_0 = {"exclusiveMinimum": 0}
HUNDREDTHS = {"type": "number", "multipleOf": 0.01}


@pytest.fixture(scope="module")
def compiler() -> ConstraintCompiler:
    return ConstraintCompiler(byte_vocabulary(), can_retry=True)


def parameters(schema: JsonObject) -> JsonObject:
    half = {"half": {"maximum": 0.5}}
    return {"type": "object", "properties": {"v": schema}, "required": ["v"], "$defs": half}


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
        # More than fifteen digits are not what a reader's double will hold.
        ({**NUMBER, "multipleOf": 0.003}, ["999999999999.999", "-0.006"], ["123456789012345.006"]),
        ({**NUMBER, "multipleOf": 3}, ["999999999999999"], ["1000000000000000000002"]),
        ({**NUMBER, "multipleOf": 1e-300}, ["0.1", "7"], []),
        # The same value spoken of in several places.
        ({**NUMBER, "allOf": [OVER_0, {"exclusiveMaximum": 1}]}, ["0.5"], ["0", "-0", "1", "1.0"]),
        ({**NUMBER, "allOf": [OVER_0, {"maximum": 0.5}]}, ["0.1", "0.5"], ["0", "0.0", "0.6"]),
        ({"allOf": [{**NUMBER, **OVER_0}, {**NUMBER, "maximum": 0.5}]}, ["0.1"], ["0", "-0.1"]),
        ({**NUMBER, **OVER_0, "allOf": [{"allOf": [{"maximum": 0.5}]}]}, ["0.1"], ["0"]),
        ({**NUMBER, **OVER_0, "$ref": "#/$defs/half"}, ["0.1", "0.5"], ["0", "0.6"]),
        ({**NUMBER, **OVER_0, "anyOf": [{"maximum": 0.5}, {"minimum": 2}]}, ["0.1", "3"], ["0"]),
        ({**NUMBER, "maximum": 0.5, "anyOf": [OVER_0, {"maximum": -2}]}, ["0.1", "-3"], ["0"]),
        ({**NUMBER, **OVER_0, "not": {"minimum": 0.5}}, ["0.1"], ["0", "0.5"]),
        ({**HUNDREDTHS, "allOf": [{"maximum": 0.015}]}, ["0.01", "-0.05"], ["0.015", "0.02"]),
        ({**HUNDREDTHS, "allOf": [{"multipleOf": 0.003}]}, ["0.03", "0.3"], ["0.01", "0.003"]),
        ({"type": "integer", "allOf": [OVER_0, {"exclusiveMaximum": 2}]}, ["1"], ["0", "2", "1.0"]),
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


async def test_bounds_that_leave_nothing_are_refused_by_name(compiler: ConstraintCompiler) -> None:
    schema = {"type": "integer", "allOf": [OVER_0, {"exclusiveMaximum": 1}]}
    callee = Callee("f", parameters(schema), "tools[0].function.parameters")
    with pytest.raises(InvalidRequest, match=r"at /properties/v: .* no integer") as caught:
        await compiler.compile(Plan(HERMES, "required", (callee,)))
    assert caught.value.param == "tools[0].function.parameters"


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{**NUMBER, **OVER_0}, {"type": "null"}]},
        {**NUMBER, "allOf": [OVER_0, {"maximum": 9}]},
        {**NUMBER, "multipleOf": 0.003},
        {**NUMBER, "exclusiveMinimum": 0},
        {**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {**NUMBER, "exclusiveMinimum": 0.5, "maximum": 0.75},
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 0.5},
        {**HUNDREDTHS, "minimum": 0.005, "maximum": 0.015},
    ],
)
def test_where_the_back_end_holds_the_bounds_nothing_is_left_to_check(schema: JsonObject) -> None:
    assert not prepare(parameters(schema), arguments=True).afterwards
