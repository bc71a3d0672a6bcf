"""Each keyword in the words of the back end, or noted for afterwards where it has none."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from typing import Any

from server.schema import patterns
from server.schema.apart import all_apart
from server.schema.keywords import TYPES, JsonObject, Refusal, canonical, types_of
from server.schema.narrow import BACKEND_FORMATS, FORMAT_PATTERNS, LONGEST, bound, holdable
from server.schema.reduction import Handler, Node, Reducer

MAX_MEMBERS = 2_000  # of one object: what they cost grows with their square
MAX_PATTERNS = 24  # of one object: the back end compares each with each
MAX_PATTERN_SIZE = 400_000  # of all patterns of a schema together
MAX_STEP = 10_000  # of multipleOf
MAX_ALTERNATIVES = 3  # dependencies of one object: as alternatives, each doubles what is compiled

IN_PLACE = frozenset(
    "allOf anyOf oneOf $ref $dynamicRef if then else dependentSchemas contains".split()
)
"""Keywords whose subschemas may evaluate the members and items of the same value."""


def _type(reducer: Reducer, node: Node, value: str | list[str]) -> None:
    node.result["type"] = value if isinstance(value, str) else list(dict.fromkeys(value))


def _required(reducer: Reducer, node: Node, value: list[str]) -> None:
    node.result["required"] = list(dict.fromkeys(value))


def _least(keyword: str) -> Handler:
    def put(reducer: Reducer, node: Node, value: int) -> None:
        if value > LONGEST:
            raise Refusal(node.at.pointer, keyword, f"no answer has {value} of anything")
        node.at_least(keyword, value)

    return put


def _most(keyword: str) -> Handler:
    def put(reducer: Reducer, node: Node, value: int) -> None:
        if value < LONGEST:
            node.at_most(keyword, value)

    return put


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
        node.result[keyword] = bound(keyword, value, node.schema, node.at.pointer)

    return put


def _multiple_of(reducer: Reducer, node: Node, value: float) -> None:
    # The back end counts in units of the last digit, and needs a state for each.
    if Fraction(repr(value)).numerator > MAX_STEP:
        reducer.note(node, "multipleOf")
    else:
        node.result["multipleOf"] = value


def _read(reducer: Reducer, node: Node, keyword: str, pattern: str) -> str:
    """A pattern as the back end reads it."""
    try:
        read = patterns.read(pattern)
    except patterns.BadPattern as exc:
        raise Refusal(node.at.pointer, keyword, f"not a regular expression: {exc}") from None
    reducer.pattern_size += read.size
    if reducer.pattern_size > MAX_PATTERN_SIZE:
        why = f"the patterns of this schema are together larger than {MAX_PATTERN_SIZE}"
        raise Refusal(node.at.pointer, keyword, why)
    return read.grammar


def _pattern(reducer: Reducer, node: Node, value: str) -> None:
    node.result["pattern"] = _read(reducer, node, "pattern", value)


def _format(reducer: Reducer, node: Node, value: str) -> None:
    if "string" not in node.kinds:
        return
    if value in FORMAT_PATTERNS:
        node.conjuncts.append({"pattern": FORMAT_PATTERNS[value]})
    elif value in BACKEND_FORMATS:
        node.result["format"] = value


# Objects


def _properties(reducer: Reducer, node: Node, value: JsonObject) -> None:
    if len(value) > MAX_MEMBERS:
        raise Refusal(node.at.pointer, "properties", f"there are more than {MAX_MEMBERS}")
    node.result["properties"] = {name: reducer.member(node, name) for name in value}


def _pattern_properties(reducer: Reducer, node: Node, value: JsonObject) -> None:
    read = {_read(reducer, node, "patternProperties", pattern): pattern for pattern in value}
    if len(read) < len(value) or len(value) > MAX_PATTERNS:
        # Any of the names, with any value.
        reducer.note(node, "patternProperties")
        node.result["patternProperties"] = {"|".join(f"(?:{each})" for each in read): True}
        return
    node.result["patternProperties"] = {
        mine: reducer.other(node, "patternProperties", theirs) for mine, theirs in read.items()
    }


def _min_properties(reducer: Reducer, node: Node, value: int) -> None:
    """The back end counts members that are not listed, and whether there is one that is."""
    demanded = len(set(node.schema.get("required", ())))
    if not _optional(node) or value <= demanded:
        _least("minProperties")(reducer, node, value)
        return
    most = node.schema.get("maxProperties", LONGEST)
    if not node.schema.get("patternProperties") and most > demanded + 1 and _closed(node):
        node.at_least("minProperties", demanded + 1)
    if value > demanded + 1 or "minProperties" not in node.result:
        reducer.note(node, "minProperties")


def _max_properties(reducer: Reducer, node: Node, value: int) -> None:
    if _optional(node):
        reducer.note(node, "maxProperties")
    else:
        _most("maxProperties")(reducer, node, value)


def _optional(node: Node) -> bool:
    """Whether members are listed that need not be there, here or in other subschemas."""
    names = {*node.schema.get("properties", ()), *(node.closing.names or ())}
    return bool(names - set(node.schema.get("required", ())))


def _closed(node: Node) -> bool:
    return node.closing.names is not None or node.schema.get("additionalProperties") is False


def _additional_properties(reducer: Reducer, node: Node, value: Any) -> None:
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
    pattern = _names_pattern(value)
    decided = {"properties", "patternProperties", "unevaluatedProperties"} & node.schema.keys()
    if pattern is None or decided or node.schema.keys() & IN_PLACE:
        reducer.note(node, "propertyNames")
        return
    name = _read(reducer, node, "propertyNames", pattern)
    others = "additionalProperties" in node.schema
    inner = reducer.other(node, "additionalProperties") if others else True
    node.conjuncts.append({"patternProperties": {name: inner}, "additionalProperties": False})


def _names_pattern(schema: Any) -> str | None:
    """The pattern that says the same of a text as a schema, if it is a simple one."""
    if not isinstance(schema, dict):
        return None
    told = schema.keys() & HANDLERS.keys() - {"type"}
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
    if value is False:
        return
    negated = _negated(value, node.schema)
    if negated is None:
        reducer.note(node, "not")
    else:
        node.conjuncts.append(negated)


def _negated(schema: Any, beside: JsonObject) -> Any:
    """What says exactly that a schema does not hold, where that can be said; else None."""
    if not isinstance(schema, dict):
        return False
    told = schema.keys() & HANDLERS.keys()
    if not told:
        return False
    if told == {"type"}:
        named = types_of(schema)
        if "integer" in named and "number" not in named:
            return None  # the numbers that are not whole
        return (
            {"type": [name for name in TYPES if name not in named]} if named < {*TYPES} else False
        )
    if told == {"required"} and len(schema["required"]) == 1:
        return {"type": "object", "properties": {schema["required"][0]: False}}
    if told <= {"enum", "const"} and "enum" in beside:
        refused = {canonical(each) for each in schema.get("enum", [schema.get("const")])}
        return {"enum": [each for each in beside["enum"] if canonical(each) not in refused]}
    return None


def _if(reducer: Reducer, node: Node, value: Any) -> None:
    branches = {"then", "else"} & node.schema.keys()
    if not branches:
        return
    if isinstance(value, bool):
        holds = "then" if value else "else"
        if holds in branches:
            node.conjuncts.append(reducer.part(node, holds))
        return
    reducer.note(node, "if")


HANDLERS: dict[str, Handler] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    **{
        keyword: _bound(keyword)
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    },
    "multipleOf": _multiple_of,
    **{keyword: _least(keyword) for keyword in ("minLength", "minItems")},
    **{keyword: _most(keyword) for keyword in ("maxLength", "maxItems")},
    "minProperties": _min_properties,
    "maxProperties": _max_properties,
    "pattern": _pattern,
    "format": _format,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "propertyNames": _property_names,
    "required": _required,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
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
