from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from server.schema.checker import Checker, Complaint, Uncheckable
from server.schema.keywords import Refusal
from server.schema.references import References


def complaints(schema: dict[str, Any], value: Any) -> list[Complaint]:
    return Checker(schema, References(schema).registry).complaints(value)


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"pattern": r"^\p{L}+$"}, "äb", "a1"),
        ({"pattern": r"^\d$"}, "1", "١"),
        ({"pattern": "^a$"}, "a", "a\n"),
        ({"patternProperties": {r"^\d$": {"type": "null"}}}, {"1": None, "١": 2}, {"1": 2}),
        (
            {"patternProperties": {r"^\p{L}$": True}, "additionalProperties": False},
            {"ä": 1},
            {"ä1": 1},
        ),
        ({"multipleOf": 0.01}, 19.99, 19.995),
        ({"multipleOf": 0.1}, 0.3, 0.35),
        ({"multipleOf": 7}, 1e20 * 7, 1e20),
        ({"enum": [1, [2.0], {"a": None}]}, [2], True),
        ({"format": "date"}, "2024-02-29", "2023-02-29"),
        ({"format": "time"}, "10:00:00Z", "10:00:00"),
        ({"format": "date-time"}, "2024-01-31T10:00:00.5+01:00", "2024-01-31"),
        ({"format": "ipv4"}, "1.2.3.4", "1.2.3.04"),
        ({"format": "email"}, "a@b.c", "ab"),
        ({"format": "no-such-format"}, "anything", None),
        ({"format": "date"}, 5, None),
        (
            {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False},
            {"a": 1},
            {"b": 1},
        ),
        (
            {
                "anyOf": [{"patternProperties": {r"^\p{L}$": True}}, {"properties": {"1": False}}],
                "unevaluatedProperties": {"type": "null"},
            },
            {"ä": 1, "22": None},
            {"22": 3},
        ),
        (
            {
                "if": {"required": ["a"], "properties": {"a": True}},
                "then": {"properties": {"b": True}},
                "else": {"properties": {"c": True}},
                "unevaluatedProperties": False,
            },
            {"a": 1, "b": 2},
            {"a": 1, "c": 2},
        ),
        (
            {
                "$ref": "#/$defs/x",
                "dependentSchemas": {"a": {"properties": {"b": True}}},
                "unevaluatedProperties": False,
                "$defs": {"x": {"properties": {"a": True}}},
            },
            {"a": 1, "b": 2},
            {"b": 2},
        ),
        (
            {"$ref": "https://json-schema.org/draft/2020-12/schema"},
            {"type": "string"},
            {"type": "strnig"},
        ),
    ],
)
def test_keywords_of_our_own(schema: dict[str, Any], valid: Any, invalid: Any) -> None:
    assert complaints(schema, valid) == []
    if invalid is not None:
        assert complaints(schema, invalid)


def test_a_complaint_names_keyword_and_place() -> None:
    schema = {"properties": {"a": {"items": {"maximum": 3}}}, "required": ["b"]}
    found = complaints(schema, {"a": [1, 5]})
    assert set(found) == {Complaint("maximum", ("a", 1)), Complaint("required", ())}
    assert sorted(map(str, found)) == ["'maximum' at /a/1", "'required' at /"]


def bombs(depth: int) -> dict[str, dict[str, Any]]:
    """Schemas that double their work with every level, each in its own way."""

    def chain(level: Any, end: Any) -> dict[str, Any]:
        links = {f"a{i}": level({"$ref": f"#/$defs/a{i + 1}"}) for i in range(depth)}
        return {"$defs": {**links, f"a{depth}": end}, "$ref": "#/$defs/a0"}

    return {
        "allOf": chain(lambda next_: {"allOf": [next_, next_]}, {"type": "object"}),
        "oneOf": chain(lambda next_: {"oneOf": [next_, next_]}, {"type": "null"}),
        "not": chain(lambda next_: {"not": {"allOf": [next_, next_]}}, {}),
        "unevaluated": chain(
            lambda next_: {"anyOf": [next_, next_], "unevaluatedProperties": False}, {}
        ),
    }


@pytest.mark.parametrize("kind", ["allOf", "oneOf", "not", "unevaluated"])
def test_work_without_end_is_stopped(kind: str) -> None:
    started = time.process_time()
    with pytest.raises(Uncheckable, match="longer than"):
        complaints(bombs(60)[kind], {"a": 1})
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "keyword",
    [
        {"pattern": r"^(?=(a+)+$)(a|a|b)+$"},
        {"propertyNames": {"pattern": r"^(a+)+\1$"}},
        {"patternProperties": {r"^(a|aa)+\1b$": False}},
        {"patternProperties": {r"^(a|aa)+\1b$": True}, "additionalProperties": False},
    ],
)
def test_patterns_that_track_back_without_end_are_stopped(keyword: dict[str, Any]) -> None:
    text = "a" * 4000 + "!"
    started = time.process_time()
    with contextlib.suppress(Uncheckable):
        complaints({"items": keyword}, [text if "pattern" in keyword else {text: 1}] * 50)
    assert time.process_time() - started < 5


def test_a_schema_that_is_only_itself_is_uncheckable() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}
    with pytest.raises(Uncheckable, match="without end"):
        complaints(schema, {})


def test_a_bad_pattern_where_nobody_looked_is_uncheckable() -> None:
    schema = {"not": {"$ref": "#/somewhere/else"}, "somewhere": {"else": {"pattern": "("}}}
    with pytest.raises(Uncheckable, match="no pattern"):
        complaints(schema, "x")


@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:9/schema", "file:///etc/passwd", "other.json", "#nowhere", "http://[::"],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_nothing_is_fetched(reference: str, keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a reference was followed out of the schema")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    monkeypatch.setattr("socket.socket.connect", no_network)
    with pytest.raises(Refusal, match="nothing is fetched"):
        References({"not": {"items": {keyword: reference}}})
    # Nor would the check, if such a schema came to it.
    checker = Checker({"not": {keyword: reference}}, References({}).registry)
    with pytest.raises((Uncheckable, ValueError)):
        checker.complaints({})


leaves = st.sampled_from(
    [{"type": "integer"}, {"enum": [1, "a", None]}, {"minLength": 2}, {"maximum": 3}, True, False]
)
schemas: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(st.just("a"), inner, max_size=1),
            "required": st.lists(st.sampled_from("ab"), max_size=1),
        },
    ),
    max_leaves=8,
)
values = st.recursive(
    st.none() | st.integers(0, 4) | st.sampled_from(["", "ab", 1.5, True]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(deadline=None)
@given(schemas, values)
def test_it_judges_as_jsonschema_does(schema: Any, value: Any) -> None:
    schema = {"allOf": [schema]}
    assert (complaints(schema, value) == []) == Draft202012Validator(schema).is_valid(value), (
        json.dumps(schema)
    )
