from typing import Any

import pytest

from server.wire.schemas import NotASchema, as_parameters, as_schema


@pytest.mark.parametrize(
    "given", [{}, [], {"type": "object"}, {"properties": []}, {"type": None, "properties": None}]
)
def test_every_spelling_of_no_arguments_is_the_same_schema(given: Any) -> None:
    assert as_parameters(given) == {"type": "object", "properties": {}}


def test_what_says_more_is_not_given_empty_properties() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}
    assert as_parameters(schema) == {"type": "object", **schema}
    assert "properties" not in as_parameters({"type": "object", "patternProperties": {"^a": {}}})


def test_the_clients_keywords_and_their_order_are_kept() -> None:
    schema = {"required": ["b"], "properties": {"b": {}, "a": {}}, "type": "object"}
    assert list(as_parameters(schema)) == list(schema)
    assert list(as_parameters(schema)["properties"]) == ["b", "a"]


def test_arguments_cannot_be_anything_but_an_object() -> None:
    assert as_parameters({"type": ["object", "null"]})["type"] == "object"
    for kind in ("string", ["array", "null"], 5):
        with pytest.raises(NotASchema, match="always an object"):
            as_parameters({"type": kind})


def test_an_empty_list_in_place_of_an_object_is_one_and_only_there() -> None:
    schema = {
        "properties": {"a": {"properties": []}, "b": [], "properties": {"items": []}},
        "required": [],
        "$defs": [],
        "anyOf": [[], {"enum": [[]], "default": [], "const": []}],
    }
    assert as_schema(schema) == {
        "properties": {"a": {"properties": {}}, "b": {}, "properties": {"items": {}}},
        "required": [],
        "$defs": {},
        "anyOf": [{}, {"enum": [[]], "default": [], "const": []}],
    }


def test_a_null_keyword_is_absent_but_a_null_value_stays() -> None:
    schema = {"title": None, "not": None, "default": None, "const": None, "enum": [None]}
    assert as_schema(schema) == {"default": None, "const": None, "enum": [None]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("x", "must be a JSON Schema object, not a text"),
        (True, "not a boolean"),
        ([1], "must be a JSON Schema object, not a list"),
        ({"properties": {"a": {"items": "string"}}}, "/properties/a/items must be"),
        ({"properties": {"a": "string"}}, "/properties/a must be a JSON Schema object, not a text"),
        ({"properties": "a"}, "/properties must be an object of schemas, not a text"),
        ({"anyOf": [{}, 5]}, "/anyOf/1 must be a JSON Schema object, not a number"),
        ({"anyOf": {}}, "/anyOf must be a list of schemas, not an object"),
        ({"items": [{}, "a"]}, "/items/1 must be"),
    ],
)
def test_what_is_no_schema_is_refused_by_pointer(schema: Any, said: str) -> None:
    with pytest.raises(NotASchema) as caught:
        as_schema(schema)
    assert said in str(caught.value)


def test_the_given_schema_is_left_alone() -> None:
    schema: dict[str, Any] = {"properties": [], "title": None}
    as_parameters(schema)
    assert schema == {"properties": [], "title": None}
