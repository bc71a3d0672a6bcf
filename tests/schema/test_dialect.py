from __future__ import annotations

from typing import Any

import pytest

from server.schema.dialect import modern
from server.schema.keywords import Refusal

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"$schema": DRAFT_7, "type": "string"}, {"type": "string"}),
        (
            {"items": [{"type": "string"}, {}], "additionalItems": False},
            {"prefixItems": [{"type": "string"}, {}], "items": False},
        ),
        ({"items": []}, {}),
        ({"items": {"minLength": 1}, "additionalItems": False}, {"items": {"minLength": 1}}),
        ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
        ({"maximum": 3, "exclusiveMaximum": False}, {"maximum": 3}),
        ({"exclusiveMaximum": True}, {}),
        ({"minimum": 1, "exclusiveMinimum": 3}, {"minimum": 1, "exclusiveMinimum": 3}),
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        ),
        ({"maxLength": 3.0, "minimum": 3.0}, {"maxLength": 3, "minimum": 3.0}),
        ({"$id": "#here"}, {"$anchor": "here"}),
        ({"$id": "urn:x", "id": "urn:y"}, {"$id": "urn:x"}),
        ({"$schema": DRAFT_4, "id": "urn:y"}, {"$id": "urn:y"}),
        # Beside a reference nothing else counts in old drafts.
        (
            {"$schema": DRAFT_7, "properties": {"a": {"$ref": "#/definitions/b", "maxLength": 2}}},
            {"properties": {"a": {"$ref": "#/definitions/b"}}},
        ),
        ({"$ref": "#/$defs/b", "maxLength": 2}, {"$ref": "#/$defs/b", "maxLength": 2}),
        # What moved is found where it is now.
        (
            {"items": [{"$ref": "#/additionalItems"}], "additionalItems": {"type": "null"}},
            {"prefixItems": [{"$ref": "#/items"}], "items": {"type": "null"}},
        ),
        (
            {
                "properties": {"a": {"items": [{}]}, "b": {"$ref": "#/properties/a/items/0"}},
                "dependencies": {"a": {"$ref": "#/dependencies/b"}, "b": {}},
            },
            {
                "properties": {
                    "a": {"prefixItems": [{}]},
                    "b": {"$ref": "#/properties/a/prefixItems/0"},
                },
                "dependentSchemas": {"a": {"$ref": "#/dependentSchemas/b"}, "b": {}},
            },
        ),
        # Members that are called like keywords are none.
        (
            {"properties": {"items": {"$ref": "#/properties/dependencies"}, "dependencies": {}}},
            {"properties": {"items": {"$ref": "#/properties/dependencies"}, "dependencies": {}}},
        ),
        ({"const": {"items": [1], "$schema": 1}}, {"const": {"items": [1], "$schema": 1}}),
        ({"$recursiveRef": "#"}, {"$ref": "#"}),
    ],
)
def test_older_spellings(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert modern(old) == new


def test_what_is_new_stays_as_it_is() -> None:
    schema = {
        "$defs": {"a": {"prefixItems": [True], "items": False}},
        "if": {"not": {}},
        "then": {"unevaluatedProperties": {"$ref": "#/$defs/a"}},
    }
    assert modern(schema) == schema
    assert modern(modern(schema)) == schema


def test_a_dynamic_reference_of_old_is_refused() -> None:
    schema = {"$recursiveAnchor": True, "properties": {"a": {"$recursiveRef": "#"}}}
    with pytest.raises(Refusal, match="recursiveRef"):
        modern(schema)


def test_what_is_no_schema_is_left_to_the_check() -> None:
    odd = {"properties": [], "items": 3, "allOf": {}, "dependencies": [], "exclusiveMinimum": "x"}
    assert modern(odd) == odd
