"""Schemas that ask for too much: refused, or served, but never at the expense of others."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from server.constraint import ConstraintCompiler
from server.errors import InvalidRequest
from tests.fakes import byte_vocabulary
from tests.test_constraint import CITY, PATH, TEXT, JsonObject, members, plan

WHOLE = {"type": "integer", "minimum": 1}


@pytest.fixture(scope="module")
def compiler() -> ConstraintCompiler:
    return ConstraintCompiler(byte_vocabulary(), can_retry=True)


def chain(length: int, link: Callable[[JsonObject], JsonObject]) -> JsonObject:
    names = [{"$ref": f"#/$defs/d{i}"} for i in range(length + 1)]
    links = {f"d{i}": link(names[i + 1]) for i in range(length)}
    return {**members(v=names[0]), "$defs": {**links, f"d{length}": members(z=TEXT)}}


def nested(depth: int, around: Callable[[JsonObject], JsonObject]) -> JsonObject:
    schema: JsonObject = TEXT
    for _ in range(depth):
        schema = around(schema)
    return members(v=schema)


def tagged(number: int) -> JsonObject:
    return members(k={"const": f"k{number}"})


def four(number: int) -> list[JsonObject]:
    return [members(**{f"p{number}": {"const": value}}) for value in range(4)]


def condition(number: int) -> JsonObject:
    return {"if": members(k={"const": number}), "then": members(**{f"x{number}": TEXT})}


def pair(inner: JsonObject) -> JsonObject:
    return {**members(a=inner, b=inner), "required": ["a", "b"]}


HOSTILE: dict[str, Callable[[], JsonObject]] = {
    "megabyte enum": lambda: members(v={"enum": [f"value number {i}" for i in range(50_000)]}),
    "enum of objects": lambda: members(v={"enum": [{"a": i} for i in range(5_000)]}),
    "2000 members": lambda: members(**{f"p{i}": TEXT for i in range(2_000)}),
    "5000 members": lambda: members(**{f"p{i}": TEXT for i in range(5_000)}),
    "5000 demands": lambda: {"type": "object", "required": [f"r{i}" for i in range(5_000)]},
    "deep members": lambda: nested(190, lambda inner: members(a=inner)),
    "deep choices": lambda: nested(190, lambda inner: {"anyOf": [inner, {"type": "null"}]}),
    "deep allOf": lambda: nested(190, lambda inner: {"allOf": [inner, {"minLength": 1}]}),
    "long chain": lambda: chain(1_500, lambda inner: members(a=inner)),
    "longer chain": lambda: chain(30_000, lambda inner: members(a=inner)),
    "doubling allOf": lambda: chain(60, lambda inner: {"allOf": [inner, inner]}),
    "doubling anyOf": lambda: chain(60, lambda inner: {"anyOf": [inner, inner]}),
    "doubling oneOf": lambda: chain(60, lambda inner: {"oneOf": [inner, inner]}),
    "doubling not": lambda: chain(60, lambda inner: {"not": {"allOf": [inner, inner]}}),
    "wide allOf": lambda: members(v={"allOf": [{"minLength": i % 7} for i in range(5_000)]}),
    "wide anyOf": lambda: members(v={"anyOf": [tagged(i) for i in range(3_000)]}),
    "wide oneOf": lambda: members(v={"oneOf": [tagged(i) for i in range(2_000)]}),
    "product": lambda: members(v={"allOf": [{"anyOf": four(i)} for i in range(12)]}),
    "many ifs": lambda: members(v={"allOf": [condition(i) for i in range(200)]}),
    "5000 parentheses": lambda: members(v={"pattern": "(" * 5_000 + "a" + ")" * 5_000}),
    "megabyte pattern": lambda: members(v={"pattern": "a" * 1_000_000}),
    "many patterns": lambda: members(**{f"v{i}": {"pattern": "(a|b)*" * 3_000} for i in range(40)}),
    "exponential pattern": lambda: members(v={"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}),
    "pattern that tracks back": lambda: members(v={"pattern": "^(?=(a+)+$)(a+)+$"}),
    "names by 200 patterns": lambda: members(
        v={"type": "object", "patternProperties": {f"^p{i}_": TEXT for i in range(200)}}
    ),
    "billion items": lambda: members(v={"type": "array", "minItems": 10**9, "maxItems": 2 * 10**9}),
    "billion letters": lambda: members(v={"type": "string", "minLength": 10**9}),
    "billion equal items": lambda: members(
        v={"type": "array", "items": {"const": "x"}, "minItems": 10**9}
    ),
    "forced lists of forced text": lambda: members(
        v={"type": "array", "items": {"const": "x" * 20_000}, "minItems": 50_000}
    ),
    "lists in lists": lambda: members(
        v={"type": "array", "minItems": 9_999, "items": {"type": "array", "minItems": 9_999}}
    ),
    "doubling members": lambda: chain(60, pair),
    "counts in counts": lambda: members(v={"type": "string", "pattern": "^((x{100}){100}){10}$"}),
    "large steps": lambda: members(v={**WHOLE, "multipleOf": 10**9 + 7, "maximum": 10**18}),
    "huge bounds": lambda: members(v={**WHOLE, "minimum": -(10**400), "maximum": 10**400}),
    "tiny bounds": lambda: members(v={"type": "number", "minimum": 1e-300, "maximum": 1e-299}),
    "itself": lambda: members(v={"$ref": "#/properties/v"}),
    "endless": lambda: {**members(v={"$ref": "#"})},
    "long name": lambda: members(**{"n" * 100_000: TEXT}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_schema_costs_its_sender_a_refusal_and_others_little(
    compiler: ConstraintCompiler, kind: str
) -> None:
    """It is refused, or works, in bounded time, and the compiler goes on."""
    started = time.process_time()
    refused = None
    try:
        constraint = compiler.compile_now(plan(HOSTILE[kind](), parallel=False))
    except InvalidRequest as exc:
        refused = exc
    else:
        guide = constraint.guide()
        guide.forced()
        for _ in range(5):
            guide.mask()
    assert time.process_time() - started < 20
    if refused is not None:
        assert refused.param == PATH
        assert "'tool0'" in refused.message
        assert len(refused.message) < 1_000
    compiler.compile_now(plan(CITY))
