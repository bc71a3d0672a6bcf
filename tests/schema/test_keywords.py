from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from server.schema.enforcement import HANDLERS
from server.schema.keywords import (
    LISTS,
    MAPS,
    SAYING,
    SINGLES,
    Refusal,
    canonical,
    check_shape,
    nodes,
)

COUNTS = ("minLength", "maxItems", "minProperties", "maxContains")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "string", 1.5]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner, max_size=1),
    max_leaves=4,
)


def sensible(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas where each keyword has a value of the right kind."""
    keywords: dict[str, st.SearchStrategy[Any]] = {
        **{key: st.dictionaries(st.sampled_from("ab"), schemas, max_size=2) for key in MAPS},
        **{key: st.lists(schemas, min_size=1, max_size=2) for key in LISTS},
        **dict.fromkeys(SINGLES, schemas),
        **dict.fromkeys(COUNTS, st.integers(0, 3)),
        "type": st.sampled_from(["string", "null", ["object", "array"]]),
        "enum": st.lists(values, max_size=2),
        "const": values,
        "multipleOf": st.sampled_from([1, 0.5]),
        "minimum": st.integers(-2, 2) | st.just(0.5),
        "required": st.lists(st.sampled_from("ab"), unique=True),
        "dependentRequired": st.dictionaries(st.just("a"), st.just(["b"])),
        "uniqueItems": st.booleans(),
        "pattern": st.just("a"),
        "format": st.just("date"),
        "$anchor": st.just("here"),
    }
    return st.fixed_dictionaries({}, optional=keywords)


schemas: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), sensible, max_leaves=6)


def sound(schema: Any) -> bool:
    try:
        check_shape(schema)
    except Refusal:
        return False
    return True


@settings(deadline=None)
@given(schemas)
def test_what_the_meta_schema_takes_is_taken(schema: Any) -> None:
    assert Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema)
    assert sound(schema)


@settings(deadline=None)
@given(schemas, st.sampled_from(sorted({*MAPS, *LISTS, *SINGLES, *SAYING} - {"const"})), values)
def test_what_it_refuses_is_refused(schema: Any, keyword: str, value: Any) -> None:
    changed = {**(schema if isinstance(schema, dict) else {}), keyword: value}
    meta = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    if sound(changed):
        # Forgiven: names that come twice.
        errors = {error.validator for error in meta.iter_errors(changed)}
        assert errors <= {"uniqueItems", "format"}
    else:
        assert not meta.is_valid(changed)


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"properties": {"a/b": {"minimum": "3"}}}, "/properties/a~1b", "minimum"),
        ({"anyOf": [{}, {"items": 5}]}, "/anyOf/1", "items"),
        ({"type": "strnig"}, "", "type"),
        ({"allOf": []}, "", "allOf"),
        ({"properties": {"x": "string"}}, "/properties", "x"),
        ({"required": "a"}, "", "required"),
        ({"multipleOf": 0}, "", "multipleOf"),
        ({"minLength": True}, "", "minLength"),
    ],
)
def test_a_refusal_names_place_and_keyword(schema: Any, pointer: str, keyword: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_shape(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)
    assert keyword in str(caught.value)


def test_every_keyword_that_says_something_is_handled() -> None:
    assert HANDLERS.keys() == SAYING


def test_nodes_have_their_pointers() -> None:
    schema = {"properties": {"a~": {"items": {}}}, "anyOf": [True, {}], "default": {"items": {}}}
    assert [pointer for pointer, _ in nodes(schema)] == [
        "",
        "/properties/a~0",
        "/properties/a~0/items",
        "/anyOf/1",
    ]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ([1], [True], False),
        ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1}, True),
        ("1", 1, False),
        (None, False, False),
        ("a", "a", True),
    ],
)
def test_equal_values_have_one_text(one: Any, other: Any, equal: bool) -> None:
    assert (canonical(one) == canonical(other)) == equal
