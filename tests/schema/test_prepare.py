"""What of a schema the grammar enforces, and what is left for afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from server.schema.keywords import Refusal
from server.schema.prepare import Prepared, prepare

JsonObject = dict[str, Any]
TEXT = {"type": "string"}
ANCHOR = {"$dynamicAnchor": "x"}
ENDLESS = {"type": "object", "properties": {"me": {"$ref": "#/properties/v"}}, "required": ["me"]}


def value_of(schema: Any, **more: Any) -> tuple[Any, Prepared]:
    """A schema as that of the only parameter: what the back end gets for it."""
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"], **more}
    prepared = prepare(whole, arguments=True)
    found = prepared.grammar["properties"]["v"]
    while isinstance(found, dict) and found.keys() == {"$ref"}:
        found = prepared.grammar["$defs"][found["$ref"].removeprefix("#/$defs/")]
    return found, prepared


def left_over(prepared: Prepared) -> set[str]:
    return {keyword for _, keyword in prepared.afterwards}


# Which objects are closed


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "description": "nothing", "additionalProperties": False},
    ],
)
def test_a_tool_without_parameters_has_none(schema: JsonObject) -> None:
    grammar = prepare(schema, arguments=True).grammar
    assert grammar["additionalProperties"] is False
    assert not grammar.get("properties")


def test_a_tool_may_ask_for_any() -> None:
    prepared = prepare({"type": "object", "additionalProperties": TEXT}, arguments=True)
    assert prepared.grammar["additionalProperties"] == TEXT
    assert prepared.loose_keys


def test_a_tool_gets_what_it_requires_though_it_is_not_listed() -> None:
    grammar = prepare({"type": "object", "required": ["a"]}, arguments=True).grammar
    assert grammar["properties"] == {"a": True}
    assert grammar["additionalProperties"] is False


def test_a_nested_object_without_members_is_a_map() -> None:
    found, prepared = value_of({"type": "object"})
    assert "additionalProperties" not in found
    assert prepared.loose_keys


def test_listed_members_are_all_there_are() -> None:
    found, prepared = value_of({"type": "object", "properties": {"a": TEXT}})
    assert found == {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}
    assert not prepared.says_less


@pytest.mark.parametrize(
    "more", [{"additionalProperties": TEXT}, {"patternProperties": {"^x": TEXT}}]
)
def test_unless_the_schema_speaks_of_others(more: JsonObject) -> None:
    found, prepared = value_of({"type": "object", "properties": {"a": TEXT}, **more})
    assert found.get("additionalProperties") is not False
    assert prepared.loose_keys


def test_a_definition_is_closed_where_it_is_all_and_open_where_it_is_a_part() -> None:
    base = {"type": "object", "properties": {"a": TEXT}}
    both = {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": TEXT}}]}
    schema = {"type": "array", "prefixItems": [{"$ref": "#/$defs/base"}, both], "items": False}
    found, prepared = value_of(schema, **{"$defs": {"base": base}})
    definitions = prepared.grammar["$defs"]
    alone, joined = found["prefixItems"]
    assert definitions[alone["$ref"].rpartition("/")[2]]["additionalProperties"] is False
    assert joined["properties"] == {"a": True, "b": True}
    assert joined["additionalProperties"] is False
    part = definitions[joined["allOf"][0]["$ref"].rpartition("/")[2]]
    assert "additionalProperties" not in part


def test_alternatives_are_closed_each_with_what_stands_beside_them() -> None:
    found, prepared = value_of(
        {
            "type": "object",
            "properties": {"kind": TEXT},
            "required": ["kind"],
            "anyOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}],
        }
    )
    assert "additionalProperties" not in found
    assert [set(each["properties"]) for each in found["anyOf"]] == [{"a", "kind"}, {"b", "kind"}]
    assert all(each["additionalProperties"] is False for each in found["anyOf"])
    assert not prepared.says_less


def test_alternatives_of_required_leave_the_object_closed() -> None:
    either = [{"required": ["a"]}, {"required": ["b"]}]
    found, prepared = value_of(
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "anyOf": either}
    )
    assert found["anyOf"] == either
    assert found["additionalProperties"] is False
    assert not prepared.says_less


def test_a_member_that_is_listed_twice_is_left_open() -> None:
    first = {"properties": {"a": {"type": "object", "properties": {"x": TEXT}}}}
    second = {"properties": {"a": {"type": "object", "properties": {"y": TEXT}}}}
    found, prepared = value_of({"type": "object", "allOf": [first, second]})
    members = [part["properties"]["a"] for part in found["allOf"]]
    assert all("additionalProperties" not in member for member in members)
    assert prepared.loose_keys


# What is said in other words


@pytest.mark.parametrize(
    ("schema", "conjunct"),
    [
        (
            {"not": {"type": "string"}},
            {"type": [*"null boolean integer number array object".split()]},
        ),
        ({"not": {}}, False),
        ({"enum": [1, 2, 3], "not": {"const": 2}}, {"enum": [1, 3]}),
        (
            {"type": "object", "not": {"required": ["a"]}},
            {"type": "object", "properties": {"a": False}},
        ),
        ({"format": "date", "type": "string"}, None),
    ],
)
def test_conjuncts(schema: JsonObject, conjunct: Any) -> None:
    found, prepared = value_of(schema)
    assert prepared.afterwards == ()
    if conjunct is not None:
        assert found["allOf"] == [conjunct]


def test_a_condition_becomes_two_alternatives() -> None:
    found, prepared = value_of(
        {
            "type": "object",
            "properties": {"kind": {"enum": ["a", "b"]}, "x": TEXT},
            "required": ["kind"],
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"required": ["x"]},
        }
    )
    assert prepared.afterwards == ()
    (alternatives,) = found["allOf"]
    holds, does_not = alternatives["anyOf"]
    assert holds["allOf"][1] == {"required": ["x"]}
    assert does_not["allOf"][0]["properties"] == {"kind": {"enum": ["b"]}}


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "string", "not": {"pattern": "a"}}, "not"),
        ({"if": {"minLength": 3}, "then": False}, "if"),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "items": TEXT, "contains": {"const": "a"}}, "contains"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"),
        ({"type": "object", "propertyNames": {"format": "date"}}, "propertyNames"),
        ({"type": "string", "pattern": "^(?!a)"}, "pattern"),
        ({"type": "integer", "multipleOf": 123457}, "multipleOf"),
        ({"allOf": [{}], "unevaluatedProperties": TEXT}, "unevaluatedProperties"),
        ({"$dynamicRef": "#x", "$defs": dict.fromkeys("ab", ANCHOR)}, "$dynamicRef"),
    ],
)
def test_what_is_left_for_afterwards(schema: JsonObject, keyword: str) -> None:
    _, prepared = value_of(schema)
    assert left_over(prepared) == {keyword}
    assert prepared.afterwards[0][0].startswith("/properties/v")


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
        {"oneOf": [{"const": "a"}, {"enum": ["b", 1]}]},
        {"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}]},
        {"type": "array", "items": TEXT, "uniqueItems": False},
        {"type": "array", "items": TEXT, "contains": {"const": "a"}, "minContains": 0},
        {"type": "string", "if": {"minLength": 3}},
        {"type": "string", "then": False, "minContains": 3},
        {"type": "object", "properties": {"a": TEXT}, "unevaluatedProperties": False},
        {"type": "array", "prefixItems": [TEXT], "unevaluatedItems": False},
        {"type": "string", "format": "no-such-format", "x-own": [1], "discriminator": {}},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "minProperties": 2},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "maxProperties": 1},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "dependentRequired": {"a": ["b"]}},
    ],
)
def test_what_the_grammar_says_all_of(schema: JsonObject) -> None:
    pets = {
        name: {
            "type": "object",
            "properties": {"kind": {"const": name}, "name": TEXT},
            "required": ["kind"],
        }
        for name in ("cat", "dog")
    }
    _, prepared = value_of(schema, **{"$defs": pets})
    assert not prepared.says_less


def test_what_must_follow_is_said() -> None:
    """Not all of it, but what keeps an answer from running into a dead end."""
    array = {"type": "array", "items": {"enum": [1, 2, 3]}}
    assert value_of({**array, "uniqueItems": True})[0]["maxItems"] == 3
    assert value_of({**array, "uniqueItems": True, "maxItems": 2})[0]["maxItems"] == 2
    assert value_of({**array, "contains": {"const": 2}})[0]["minItems"] == 1
    assert value_of({**array, "contains": {}, "minContains": 4, "minItems": 5})[0]["minItems"] == 5


@pytest.mark.parametrize(
    ("keyword", "value", "kind", "held"),
    [
        ("maximum", 2**63 - 1, "integer", 2**63 - 1024),
        ("minimum", -(2**63), "integer", -(2**63) + 1024),
        ("maximum", 2**64, "integer", 2**63 - 1024),
        ("minimum", 2**53 + 1, "integer", 2**53 + 2),
        ("maximum", 2**53 + 1, "integer", 2**53),
        ("maximum", 1e300, "number", 10**15),
        ("minimum", -0.5, "number", -0.5),
    ],
)
def test_bounds_are_ones_that_are_held_exactly(
    keyword: str, value: float, kind: str, held: float
) -> None:
    assert value_of({"type": kind, keyword: value})[0][keyword] == held


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"const": 2**60 + 1}, "/properties/v", "const"),
        ({"enum": [[2**60 + 1]]}, "/properties/v", "enum"),
        ({"type": "integer", "minimum": 10**30}, "/properties/v", "minimum"),
        ({"pattern": "^+[a-z]$"}, "/properties/v", "pattern"),
        ({"items": {"patternProperties": {"(": {}}}}, "/properties/v/items", "patternProperties"),
        ({"anyOf": [{"$ref": "#/nope"}]}, "/properties/v/anyOf/0", "$ref"),
        ({"not": {"$ref": "http://example.org/x"}}, "/properties/v/not", "$ref"),
        ({"$ref": "#/properties/v"}, "/properties/v", "$ref"),
        ({"type": "string", "minLength": 2**40}, "/properties/v", "minLength"),
        ({"type": "objekt"}, "/properties/v", "type"),
        (ENDLESS, "", "$ref"),
    ],
)
def test_refusals_name_place_and_keyword(schema: JsonObject, pointer: str, keyword: str) -> None:
    with pytest.raises(Refusal) as caught:
        value_of(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)


def test_numbers_that_cannot_be_held_leave_the_other_values_of_an_enum() -> None:
    assert value_of({"enum": [1, 2**60 + 1, "a"]})[0]["enum"] == [1, "a"]


def test_an_answer_in_json_is_an_object_or_an_array() -> None:
    assert prepare({}, arguments=False).grammar["type"] == ["array", "object"]
    assert prepare({"type": ["object", "null"]}, arguments=False).grammar["type"] == ["object"]
    with pytest.raises(Refusal, match="type"):
        prepare({"type": "string"}, arguments=False)


def test_endless_alternatives_are_left_out() -> None:
    """The back end would go into them, and a model never come out."""
    link = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/link"}},
        "required": ["next"],
    }
    found, _ = value_of({"anyOf": [{"$ref": "#/$defs/link"}, TEXT]}, **{"$defs": {"link": link}})
    assert found["anyOf"] == [False, TEXT]


def deep(depth: int) -> JsonObject:
    schema: JsonObject = TEXT
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def test_deep_schemas_are_cut_into_definitions() -> None:
    grammar = prepare(deep(190), arguments=True).grammar

    def depth(value: Any) -> int:
        inner = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
        return 1 + max(map(depth, inner), default=0)

    assert len(grammar["$defs"]) > 5
    assert max(depth(each) for each in grammar["$defs"].values()) < 100


def linked(length: int, link: Any = None) -> JsonObject:
    """Definitions, each of which refers to the next."""

    def plain(next_: JsonObject) -> JsonObject:
        return {"type": "object", "properties": {"a": next_}}

    names = [{"$ref": f"#/$defs/d{i}"} for i in range(length + 1)]
    chain = {f"d{i}": (link or plain)(names[i + 1]) for i in range(length)}
    return {
        "type": "object",
        "properties": {"v": names[0]},
        "$defs": {**chain, f"d{length}": {"type": "object", "properties": {"z": TEXT}}},
    }


def doubled(next_: JsonObject) -> JsonObject:
    return {"allOf": [next_, next_]}


HOSTILE: dict[str, Callable[[], JsonObject]] = {
    "deep": lambda: deep(3_000),
    "long chain": lambda: linked(3_000),
    "huge chain": lambda: linked(60_000),
    "mere references": lambda: linked(1_000, lambda next_: next_),
    "many members": lambda: {"properties": {f"p{i}": TEXT for i in range(5_000)}},
    "many parts": lambda: {
        "properties": {
            f"o{i}": {"properties": {f"p{k}": TEXT for k in range(1_000)}} for i in range(60)
        }
    },
    "large patterns": lambda: {
        "properties": {f"p{i}": {"pattern": "(a|b)*" * 3_000 + str(i)} for i in range(60)}
    },
    "itself": lambda: {"$ref": "#"},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_too_much_is_refused_in_time(kind: str) -> None:
    schema = {"type": "object", **HOSTILE[kind]()}
    started = time.process_time()
    with pytest.raises(Refusal):
        prepare(schema, arguments=True)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("link", [doubled, lambda next_: {"anyOf": [next_, next_]}])
def test_doubling_chains_take_no_doubling_time(link: Any) -> None:
    started = time.process_time()
    prepare(linked(60, link), arguments=True)
    assert time.process_time() - started < 5
