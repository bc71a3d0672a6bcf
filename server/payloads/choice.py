"""The grammar and the reader of a notation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from prompts.payloads import Json, Keywords, Payload, Quoted, Tags
from server.payloads.notation import keywords_rule, quoted_rule
from server.payloads.notation_readers import KeywordsReader, QuotedReader
from server.payloads.reading import JsonReader, Reader
from server.payloads.rules import JsonObject, Rules, json_value
from server.payloads.shapes import Shapes, Tangled, members
from server.payloads.tags import tags_rule
from server.payloads.tags_reader import Parameter, TagsReader
from server.schema.checker import Complaint, Uncheckable

Parameters = Mapping[str, Parameter]


class Checker(Protocol):
    def complaints(self, value: Any) -> list[Complaint]: ...


def arguments_rule(rules: Rules, payload: Payload, schema: JsonObject, *, literal: bool) -> str:
    """The rule for arguments that satisfy a schema for the back end.

    `literal`: markers are spelled as text even if they are vocabulary entries. Raises ValueError if
    nothing satisfies the schema.
    """
    made: str | None
    match payload:
        case Json():
            made = rules.new(json_value(schema))
        case Tags():
            made = tags_rule(rules, payload, schema, literal=literal)
        case Quoted():
            made = quoted_rule(rules, payload, schema, literal=literal)
        case Keywords():
            made = keywords_rule(rules, schema)
    if made is None:
        raise ValueError("Unsatisfiable schema: no value satisfies it")
    return made


def is_exact(payload: Payload, schema: JsonObject) -> bool:
    """Whether the rule lets through nothing but what the schema for the back end does."""
    if isinstance(payload, Json):
        return True
    rules = Rules(lambda text: [text])
    try:
        arguments_rule(rules, payload, schema, literal=True)
    except ValueError:
        return False
    return not rules.inexact


def new_reader(payload: Payload, parameters: Parameters) -> Reader:
    match payload:
        case Json():
            return JsonReader()
        case Tags():
            return TagsReader(payload, parameters)
        case Quoted(quote):
            return QuotedReader(quote)
        case Keywords():
            return KeywordsReader()


def parameters_of(schema: JsonObject, checker: Checker) -> Parameters:
    """What a reader must know of the parameters of a tool; `schema` is that for the back end."""
    shapes = Shapes(schema.get("$defs", {}))
    try:
        ways = [made for way in shapes.ways(schema) if (made := members(way))]
    except Tangled:
        ways = []
    kinds: dict[str, frozenset[str]] = {}
    for way in ways:
        for name, inner in way.listed.items():
            kinds[name] = kinds.get(name, frozenset()) | shapes.kinds(inner)
    return {
        name: Parameter(
            text="string" in found,
            other=bool(found - {"string"}),
            fits=partial(_fits, checker, name),
        )
        for name, found in kinds.items()
    }


def _fits(checker: Checker, name: str, value: Any) -> bool:
    try:
        complaints = checker.complaints({name: value})
    except Uncheckable:
        return False
    return not any(complaint.path[:1] == (name,) for complaint in complaints)
