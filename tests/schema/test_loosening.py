"""Leaving out what a back end does not take, with back ends that take all but this or that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from server.schema.keywords import Refusal, nodes
from server.schema.loosening import Loosened, Verdict, loosen

JsonObject = dict[str, Any]
TEXT = {"type": "string"}


def against(refused: Callable[[JsonObject], bool]) -> Verdict:
    """A back end that follows references and cannot take such nodes."""

    def verdict(schema: JsonObject) -> str | None:
        definitions = schema.get("$defs", {})
        seen: set[str] = set()
        waiting = [{key: value for key, value in schema.items() if key != "$defs"}]
        while waiting:
            for _, node in nodes(waiting.pop()):
                if refused(node):
                    return "it is too hard"
                name = str(node.get("$ref", "")).rpartition("/")[2]
                if name and name not in seen:
                    seen.add(name)
                    waiting.append(definitions[name])
        return None

    return verdict


def without(keyword: str) -> Verdict:
    return against(lambda node: keyword in node)


def loosened(schema: JsonObject, verdict: Verdict) -> Loosened:
    return loosen(schema, {id(node): pointer for pointer, node in nodes(schema)}, verdict)


def test_only_what_is_not_taken_is_left_out() -> None:
    schema = {
        "properties": {
            "a": {"items": {"type": "string", "pattern": "x", "maxLength": 3}},
            "b": {"type": "string", "maxLength": 4},
        }
    }
    found = loosened(schema, without("pattern"))
    assert found.grammar["properties"] == {
        "a": {"items": {"type": "string", "maxLength": 3}},
        "b": {"type": "string", "maxLength": 4},
    }
    assert found.afterwards == [("/properties/a/items", "pattern")]


def test_keywords_that_are_too_much_together_lose_the_first_that_helps() -> None:
    both = against(lambda node: {"pattern", "maxLength"} <= node.keys())
    found = loosened({"type": "string", "maxLength": 3, "pattern": "x"}, both)
    assert found.grammar == {"type": "string", "maxLength": 3, "$defs": {}}
    assert found.afterwards == [("", "pattern")]


def test_what_was_left_out_for_nothing_comes_back() -> None:
    schema = {"type": "object", "pattern": "x", "minProperties": 1, "required": ["a"]}
    found = loosened(schema, without("minProperties"))
    assert found.grammar == {
        "type": "object",
        "pattern": "x",
        "required": ["a"],
        "$defs": {},
    }


def test_what_is_left_out_takes_along_what_would_then_say_more() -> None:
    schema = {
        "properties": {"a": TEXT},
        "patternProperties": {"^x": TEXT},
        "additionalProperties": False,
    }
    found = loosened(schema, without("patternProperties"))
    assert found.grammar == {"properties": {"a": TEXT}, "$defs": {}}
    items = {"prefixItems": [TEXT], "items": False}
    assert loosened(items, without("prefixItems")).grammar == {"$defs": {}}


def test_overlapping_patterns_of_names_become_one() -> None:
    schema = {"patternProperties": {"^a": TEXT, "b$": {}}, "additionalProperties": False}
    several = against(lambda node: len(node.get("patternProperties", ())) > 1)
    found = loosened(schema, several)
    assert found.grammar["patternProperties"] == {"(?:^a)|(?:b$)": True}
    assert found.grammar["additionalProperties"] is False
    assert found.afterwards == [("", "patternProperties")]


def test_definitions_are_mended_once_also_in_circles() -> None:
    reference = {"$ref": "#/$defs/d0"}
    schema = {
        "properties": {"a": reference, "b": reference},
        "$defs": {
            "d0": {"properties": {"next": {"$ref": "#/$defs/d1"}, "p": {"pattern": "x"}}},
            "d1": {"items": reference, "pattern": "y"},
        },
    }
    found = loosened(schema, without("pattern"))
    assert found.grammar["$defs"] == {
        "d0": {"properties": {"next": {"$ref": "#/$defs/d1"}, "p": {}}},
        "d1": {"items": reference},
    }
    assert sorted(keyword for _, keyword in found.afterwards) == ["pattern", "pattern"]


def test_what_nothing_satisfies_is_blamed_on_the_innermost_part() -> None:
    def verdict(schema: JsonObject) -> str | None:
        empty = any(node.get("maximum", 9) < node.get("minimum", 0) for _, node in nodes(schema))
        return "Unsatisfiable schema: minimum (3) is greater than maximum (2)" if empty else None

    schema = {
        "required": ["b"],
        "properties": {"a": TEXT, "b": {"allOf": [{"maximum": 2, "minimum": 3}]}},
    }
    with pytest.raises(Refusal) as caught:
        loosened(schema, verdict)
    assert (caught.value.pointer, caught.value.keyword) == ("/properties/b/allOf/0", "maximum")


def test_definitions_that_nothing_satisfies_become_false() -> None:
    def verdict(schema: JsonObject) -> str | None:
        text = str({key: value for key, value in schema.items() if key != "$defs"})
        return "Unsatisfiable schema: no" if "d0" in text else None

    schema = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {"d0": {"enum": []}}}
    assert loosened(schema, verdict).grammar == {"properties": {"a": False}, "$defs": {}}


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("server.schema.loosening.time.thread_time", lambda: float(next(clock)))
    schema = {"properties": {f"p{i}": {"pattern": "x"} for i in range(50)}}
    with pytest.raises(Refusal, match="too much"):
        loosened(schema, without("pattern"))


def test_what_nothing_helps_is_refused() -> None:
    with pytest.raises(Refusal, match="too hard"):
        loosened({"type": "string", "pattern": "x"}, lambda schema: "it is too hard")
