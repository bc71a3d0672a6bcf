"""The keywords of objects in the words of the back end. A part of `enforcement.py`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations
from math import comb
from typing import Any

from server.schema.keywords import SAYING, JsonObject, Refusal
from server.schema.reduction import Handler, Node, Reducer
from server.schema.words import IN_PLACE, lower_count, read_pattern, upper_count

MAX_MEMBERS = 2_000  # of one object: what they cost grows with their square
MAX_PATTERNS = 24  # of one object: the back end compares each with each
MAX_COMBINATIONS = 12  # of members, to count them
MAX_ALTERNATIVES = 3  # dependencies of one object: as alternatives, each doubles what is compiled


def _required(reducer: Reducer, node: Node, value: list[str]) -> None:
    node.result["required"] = list(dict.fromkeys(value))


def _properties(reducer: Reducer, node: Node, value: JsonObject) -> None:
    if len(value) > MAX_MEMBERS:
        raise Refusal(node.at.pointer, "properties", f"there are more than {MAX_MEMBERS}")
    node.result["properties"] = {name: reducer.member(node, name) for name in value}


def _pattern_properties(reducer: Reducer, node: Node, value: JsonObject) -> None:
    read = [read_pattern(reducer, node, "patternProperties", pattern) for pattern in value]
    names = [each.grammar for each in read]
    if len(set(names)) < len(names) or len(names) > MAX_PATTERNS:
        reducer.note(node, "patternProperties")
    elif all(each.exact for each in read):
        node.result["patternProperties"] = {
            mine: reducer.other(node, "patternProperties", theirs)
            for mine, theirs in zip(names, value, strict=True)
        }
        return
    # Any of the names, with any value.
    node.result["patternProperties"] = {"|".join(f"(?:{name})" for name in names): True}


def _min_properties(reducer: Reducer, node: Node, value: int) -> None:
    optional, demanded = _optional(node), len(set(node.schema.get("required", ())))
    if optional is None or (optional and not _closed(node)):
        reducer.note(node, "minProperties")
    elif not optional:
        lower_count("minProperties")(reducer, node, value)
    elif value > demanded + len(optional):
        node.conjuncts.append(False)
    elif value > demanded and not _among_alternatives(
        node, optional, value - demanded, lambda names: {"required": names}
    ):
        node.at_least("minProperties", demanded + 1)  # as far as the back end counts these
        reducer.note(node, "minProperties")


def _max_properties(reducer: Reducer, node: Node, value: int) -> None:
    optional, demanded = _optional(node), len(set(node.schema.get("required", ())))
    if optional is None or (optional and not _closed(node)):
        reducer.note(node, "maxProperties")
    elif not optional or value < demanded:
        upper_count("maxProperties")(reducer, node, value)
    elif value < demanded + len(optional) and not _among_alternatives(
        node,
        optional,
        demanded + len(optional) - value,
        lambda names: {"properties": dict.fromkeys(names, False)},
    ):
        reducer.note(node, "maxProperties")


def _optional(node: Node) -> list[str] | None:
    """The listed members that need not be there; None if other subschemas may list some too."""
    if node.mode.extra is None or node.schema.keys() & IN_PLACE:
        return None
    names = dict.fromkeys([*node.schema.get("properties", ()), *(node.closing.names or ())])
    return [name for name in names if name not in node.schema.get("required", ())]


def _closed(node: Node) -> bool:
    """Whether there are no members but those that are listed."""
    closed = node.closing.names is not None or node.schema.get("additionalProperties") is False
    return closed and "patternProperties" not in node.schema


def _among_alternatives(
    node: Node, names: list[str], count: int, part: Callable[[list[str]], JsonObject]
) -> bool:
    """Demand `part` of some `count` of the names; False if that takes too many alternatives."""
    if comb(len(names), count) > MAX_COMBINATIONS:
        return False
    node.conjuncts.append({"anyOf": [part(list(some)) for some in combinations(names, count)]})
    return True


def _additional_properties(reducer: Reducer, node: Node, value: Any) -> None:
    if _named_by(node) is None:
        node.result["additionalProperties"] = reducer.other(node, "additionalProperties")


def _unevaluated_properties(reducer: Reducer, node: Node, value: Any) -> None:
    if value is True or value == {} or "additionalProperties" in node.schema:
        return
    if node.schema.keys() & IN_PLACE:
        reducer.note(node, "unevaluatedProperties")
    else:
        node.result["additionalProperties"] = reducer.other(node, "unevaluatedProperties")


def _property_names(reducer: Reducer, node: Node, value: Any) -> None:
    """Names by a pattern or a list are patternProperties, if nothing else decides about members."""
    if value is True or value == {}:
        return
    pattern = _named_by(node)
    if pattern is None:
        reducer.note(node, "propertyNames")
        return
    name = read_pattern(reducer, node, "propertyNames", pattern).grammar
    others = "additionalProperties" in node.schema
    node.result["patternProperties"] = {
        name: reducer.other(node, "additionalProperties") if others else True
    }
    node.result["additionalProperties"] = False


def _named_by(node: Node) -> str | None:
    """The pattern that alone decides about the names of members, if there is one."""
    decided = {"properties", "patternProperties", "unevaluatedProperties", "required"}
    if node.schema.keys() & (decided | IN_PLACE) or node.closing.names is not None:
        return None
    return _names_pattern(node.schema.get("propertyNames"))


def _names_pattern(schema: Any) -> str | None:
    """The pattern that says the same of a text as a schema, if it is a simple one."""
    if not isinstance(schema, dict):
        return None
    told = schema.keys() & SAYING - {"type"}
    if schema.get("type", "string") != "string" or len(told) != 1:
        return None
    if told == {"pattern"}:
        return str(schema["pattern"])
    values = schema.get("enum", [schema.get("const")]) if told <= {"enum", "const"} else []
    if not values or not all(isinstance(value, str) for value in values):
        return None
    texts = ("".join(f"\\u{{{ord(char):x}}}" for char in value) for value in values)
    return f"^(?:{'|'.join(texts)})$"


def _dependent_required(reducer: Reducer, node: Node, value: dict[str, list[str]]) -> None:
    demands = {name: names for name, names in value.items() if names}
    # Names that are not listed would have to come in this order.
    listed = {*demands, *chain(*demands.values())} <= node.schema.get("properties", {}).keys()
    if len(demands) > MAX_ALTERNATIVES or not listed:
        reducer.note(node, "dependentRequired")
        return
    for name, names in demands.items():
        there = {"required": list(dict.fromkeys([name, *names]))}
        node.conjuncts.append({"anyOf": [{"properties": {name: False}}, there]})


def _dependent_schemas(reducer: Reducer, node: Node, value: JsonObject) -> None:
    if len(value) > MAX_ALTERNATIVES:
        reducer.note(node, "dependentSchemas")
        return
    for name in value:
        there = {"required": [name], "allOf": [reducer.part(node, "dependentSchemas", name)]}
        node.conjuncts.append({"anyOf": [{"properties": {name: False}}, there]})


OBJECT_HANDLERS: dict[str, Handler] = {
    "minProperties": _min_properties,
    "maxProperties": _max_properties,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "propertyNames": _property_names,
    "required": _required,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
}
