from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from server.schema.dialect import modern
from server.schema.keywords import Refusal
from server.schema.prepare import prepare
from server.wire.schemas import NotASchema, as_parameters
from tests.driving import assert_satisfies
from tests.fuzz.answers import check_choice
from tests.lenient import standard
from tests.wire.test_fuzz import schema

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES)


@settings(max_examples=200, deadline=None)
@given(schema, OBJECTS)
def test_what_the_server_takes_reads_the_same_here_and_for_the_standards_own_checker(
    client: Any, value: dict[str, Any]
) -> None:
    try:
        taken = as_parameters(client)
        checker = prepare(taken, arguments=True).checker
    except (NotASchema, Refusal):
        return
    said = standard(client)
    assert {"properties": {}, **said, "type": "object"} == {"properties": {}, **modern(taken)}
    valid = Draft202012Validator({**said, "type": "object"}).is_valid(value)
    assert valid == (not checker.complaints(value))


def _choice(arguments: str) -> dict[str, Any]:
    call = {"type": "function", "function": {"name": "look", "arguments": arguments}}
    return {"finish_reason": "tool_calls", "message": {"tool_calls": [call]}}


def _asked(parameters: Any) -> dict[str, Any]:
    return {"tools": [{"function": {"name": "look", "parameters": parameters}}]}


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": None},
        {"properties": {"a": {"properties": None, "type": None, "enum": None}}},
        {"anyOf": None, "items": None, "definitions": None, "required": None},
        {"properties": {"a": [], "b": {"anyOf": [[], {"items": []}]}}},
        {"properties": {"a": {"items": [{"type": "integer"}]}}},
    ],
)
def test_the_checker_of_answers_reads_what_the_server_reads(parameters: Any) -> None:
    check_choice(_choice('{"a": [7]}'), _asked(parameters))
    as_parameters(parameters)


def test_and_still_finds_what_is_wrong() -> None:
    parameters = {"properties": {"a": {"items": [{"type": "integer"}], "pattern": None}}}
    with pytest.raises(AssertionError, match="breaks"):
        check_choice(_choice('{"a": ["x"]}'), _asked(parameters))
    assert_satisfies('{"a": null}', standard({"properties": {"a": {"const": None}}}))
