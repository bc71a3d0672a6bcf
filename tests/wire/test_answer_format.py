import json
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
            {"type": "json_object", "schema": {"minProperties": 1}},
            {"type": "object", "minProperties": 1},
        ),
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


@pytest.mark.parametrize(
    ("fields", "schema", "path"),
    [
        ({"guided_json": SCHEMA}, SCHEMA, "guided_json"),
        ({"guided_json": json.dumps(SCHEMA)}, SCHEMA, "guided_json"),
        ({"json_schema": SCHEMA}, SCHEMA, "json_schema"),
        ({"structured_outputs": {"json": SCHEMA}}, SCHEMA, "structured_outputs.json"),
        (
            {"structured_outputs": {"json_object": True}},
            {"type": "object"},
            "structured_outputs.json_object",
        ),
        ({"structured_outputs": {"regex": None}}, None, "response_format.json_schema.schema"),
        (
            {"guided_json": SCHEMA, "response_format": {"type": "text"}},
            SCHEMA,
            "guided_json",
        ),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            SCHEMA,
            "response_format.schema",
        ),
    ],
)
def test_other_servers_names_of_the_format(fields: Any, schema: Any, path: str) -> None:
    request = ask(**fields)
    assert request.answer_schema == schema
    assert request.answer_path == path


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_json": "no schema"}, "guided_json"),
        ({"guided_json": "[" * 100_0}, "guided_json"),
        ({"guided_json": 5}, "guided_json"),
        ({"json_schema": {"properties": {"a": "b"}}}, "json_schema"),
        ({"structured_outputs": {"regex": "a+"}}, "structured_outputs"),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "structured_outputs"),
        ({"structured_outputs": {"json": True}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": SCHEMA, "json_object": True}}, "structured_outputs"),
        ({"guided_json": SCHEMA, "json_schema": SCHEMA}, "json_schema"),
        (
            {"guided_json": SCHEMA, "response_format": {"type": "json_object"}},
            "guided_json",
        ),
    ],
)
def test_what_they_say_beyond_a_schema_is_refused(fields: Any, param: str) -> None:
    assert refused(**fields).param == param
