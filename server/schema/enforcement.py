"""Each keyword in the words of the back end, or noted for afterwards where it has none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from server.schema.apart import all_apart
from server.schema.keywords import Refusal
from server.schema.members import OBJECT_HANDLERS
from server.schema.narrow import (
    BACKEND_FORMATS,
    DIGITS,
    FORMAT_PATTERNS,
    bound,
    decimals,
    holdable,
    largest,
    lets_bound_through,
)
from server.schema.negation import negated
from server.schema.reduction import Handler, Node, Reducer
from server.schema.words import IN_PLACE, lower_count, read_pattern, upper_count

MAX_STEP = 10_000  # of multipleOf
UNKNOWN = frozenset("anyOf oneOf if not $dynamicRef".split())
"""Keywords that may have further bounds for the same value."""
MAX_CONDITIONS = 6  # of a schema: as alternatives, each doubles what is compiled


def _type(reducer: Reducer, node: Node, value: str | list[str]) -> None:
    node.result["type"] = value if isinstance(value, str) else list(dict.fromkeys(value))


# Values


def _enum(reducer: Reducer, node: Node, values: list[Any]) -> None:
    held = [value for value in values if holdable(value)]
    if values and not held:
        raise Refusal(node.at.pointer, "enum", "numbers this large cannot be held exactly")
    node.result["enum"] = held


def _const(reducer: Reducer, node: Node, value: Any) -> None:
    if not holdable(value):
        raise Refusal(node.at.pointer, "const", "a number this large cannot be held exactly")
    node.result["const"] = value


def _bound(keyword: str) -> Handler:
    def put(reducer: Reducer, node: Node, value: float) -> None:
        if node.mode.numbers:
            return
        beside = node.mode.bounds or node.mode.partly or bool(node.schema.keys() & UNKNOWN)
        if lets_bound_through(keyword, node.schema, beside=beside):
            reducer.note(node, keyword)
        node.result[keyword] = bound(keyword, node.schema, node.at.pointer)

    return put


def _multiple_of(reducer: Reducer, node: Node, value: float) -> None:
    if node.mode.numbers:
        return
    # The back end counts in units of the last digit, and needs a state for each.
    if Fraction(repr(value)).numerator > MAX_STEP or decimals(value) > DIGITS:
        reducer.note(node, "multipleOf")
        return
    node.result["multipleOf"] = value
    if "number" in node.kinds:
        limit = largest(node.schema)
        if not {"minimum", "exclusiveMinimum"} & node.schema.keys():
            node.result["minimum"] = -limit
        if not {"maximum", "exclusiveMaximum"} & node.schema.keys():
            node.result["maximum"] = limit


def _pattern(reducer: Reducer, node: Node, value: str) -> None:
    node.result["pattern"] = read_pattern(reducer, node, "pattern", value).grammar


def _format(reducer: Reducer, node: Node, value: str) -> None:
    if "string" not in node.kinds:
        return
    if value in FORMAT_PATTERNS:
        node.conjuncts.append({"pattern": FORMAT_PATTERNS[value]})
    elif value in BACKEND_FORMATS:
        node.result["format"] = value


# Arrays


def _prefix_items(reducer: Reducer, node: Node, value: list[Any]) -> None:
    node.result["prefixItems"] = [
        reducer.other(node, "prefixItems", index) for index in range(len(value))
    ]


def _items(reducer: Reducer, node: Node, value: Any) -> None:
    node.result["items"] = reducer.other(node, "items")


def _unevaluated_items(reducer: Reducer, node: Node, value: Any) -> None:
    if value is True or value == {} or "items" in node.schema:
        return
    if node.schema.keys() & IN_PLACE:
        reducer.note(node, "unevaluatedItems")
    else:
        node.result["items"] = reducer.other(node, "unevaluatedItems")


def _unique_items(reducer: Reducer, node: Node, value: bool) -> None:
    if not value:
        return
    reducer.note(node, "uniqueItems")
    items = node.schema.get("items")
    if isinstance(items, dict) and "enum" in items and "prefixItems" not in node.schema:
        node.at_most("maxItems", len(items["enum"]))  # else there is no way on from there


def _contains(reducer: Reducer, node: Node, value: Any) -> None:
    least = node.schema.get("minContains", 1)
    if least:
        node.at_least("minItems", least)
    if least or "maxContains" in node.schema:
        reducer.note(node, "contains")


# Subschemas of the same value


def _all_of(reducer: Reducer, node: Node, value: list[Any]) -> None:
    node.result["allOf"] = [reducer.part(node, "allOf", index) for index in range(len(value))]


def _any_of(reducer: Reducer, node: Node, value: list[Any]) -> None:
    node.result["anyOf"] = reducer.branches(node, "anyOf")


def _one_of(reducer: Reducer, node: Node, value: list[Any]) -> None:
    places = [node.inner("oneOf", index) for index in range(len(value))]
    if not all_apart(places, reducer.references):
        reducer.note(node, "oneOf")
    branches = {"anyOf": reducer.branches(node, "oneOf")}
    if "anyOf" in node.schema:
        node.conjuncts.append(branches)
    else:
        node.result.update(branches)


def _reference(keyword: str) -> Handler:
    def put(reducer: Reducer, node: Node, value: str) -> None:
        found = reducer.joined_reference(node, keyword, value)
        if "$ref" in node.result or not isinstance(found, dict):
            node.conjuncts.append(found)
        else:
            node.result.update(found)

    return put


def _not(reducer: Reducer, node: Node, value: Any) -> None:
    without = negated(value, node.schema)
    if without is None:
        reducer.note(node, "not")
    elif without is not True:
        node.conjuncts.append(without)


def _if(reducer: Reducer, node: Node, value: Any) -> None:
    """Two alternatives, if it can be said that the condition does not hold."""
    if not {"then", "else"} & node.schema.keys():
        return
    without = negated(value, node.schema)
    if without is None or reducer.conditions == MAX_CONDITIONS:
        reducer.note(node, "if")
        return
    reducer.conditions += 1
    with_it = [reducer.part(node, "if")]
    if "then" in node.schema:
        with_it.append(reducer.part(node, "then"))
    without_it = [without, reducer.part(node, "else")] if "else" in node.schema else [without]
    node.conjuncts.append({"anyOf": [{"allOf": with_it}, {"allOf": without_it}]})


HANDLERS: dict[str, Handler] = {
    **OBJECT_HANDLERS,
    "type": _type,
    "enum": _enum,
    "const": _const,
    **{
        keyword: _bound(keyword)
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    },
    "multipleOf": _multiple_of,
    **{keyword: lower_count(keyword) for keyword in ("minLength", "minItems")},
    **{keyword: upper_count(keyword) for keyword in ("maxLength", "maxItems")},
    "pattern": _pattern,
    "format": _format,
    "prefixItems": _prefix_items,
    "items": _items,
    "unevaluatedItems": _unevaluated_items,
    "uniqueItems": _unique_items,
    "contains": _contains,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "$ref": _reference("$ref"),
    "$dynamicRef": _reference("$dynamicRef"),
    "not": _not,
    "if": _if,
}
"""By keyword; one without an entry is an annotation, or speaks to the entry of another."""
