from typing import Any

import pytest

from tests.wire.builders import ask, refused

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_object", "schema": SCHEMA}, SCHEMA),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}},
            SCHEMA,
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {"properties": []}}},
            {"properties": {}},
        ),
    ],
)
def test_the_schema_of_the_answer(wanted: Any, schema: Any) -> None:
    assert ask(response_format=wanted).answer_schema == schema


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ("json", "response_format"),
        ({}, "response_format"),
        ({"type": "grammar", "grammar": "root ::= x"}, "response_format"),
        ({"type": ["text"]}, "response_format"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {"name": "n"}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": "string"}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": "b"}}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_a_format_of_another_shape_is_refused_by_path(wanted: Any, param: str) -> None:
    assert refused(response_format=wanted).param == param
