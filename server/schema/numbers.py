"""The keywords of numbers that several subschemas have for the same value, put together.

llguidance 1.9.1 reads a bound by itself otherwise than beside another, see `narrow.py`: so they
have to stand in one place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from typing import Any

from server.schema.keywords import JsonObject
from server.schema.references import Place, References

TIGHTEST = {
    "minimum": max,
    "exclusiveMinimum": max,
    "maximum": min,
    "exclusiveMaximum": min,
}
NUMERIC = (*TIGHTEST, "multipleOf")
MAX_PARTS = 200  # of one value


def numbers_of(schema: JsonObject, at: Place, references: References) -> JsonObject:
    """The keywords of numbers of a schema and of what `allOf` and `$ref` say beside it.

    Of steps that have no common one that a double can hold, the first is given.
    """
    parts = list(_parts(schema, at, references, {id(schema)}))
    found: JsonObject = {}
    for keyword, tightest in TIGHTEST.items():
        if given := [part[keyword] for part in parts if keyword in part]:
            found[keyword] = tightest(given)
    if steps := [part["multipleOf"] for part in parts if "multipleOf" in part]:
        found["multipleOf"] = common_step(steps) or steps[0]
    return found


def common_step(steps: list[float]) -> float | None:
    """The smallest number whose multiples are multiples of all steps; None if no double is it."""
    exact = reduce(_common, (Fraction(repr(step)) for step in steps))
    step = int(exact) if exact.denominator == 1 else float(exact)
    return step if Fraction(repr(step)) == exact else None


def _common(one: Fraction, other: Fraction) -> Fraction:
    return Fraction(
        math.lcm(one.numerator, other.numerator), math.gcd(one.denominator, other.denominator)
    )


def _parts(schema: Any, at: Place, references: References, seen: set[int]) -> Iterator[JsonObject]:
    if not isinstance(schema, dict) or len(seen) > MAX_PARTS:
        return
    yield schema
    inner = [(one, at.inside(one)) for one in schema.get("allOf", ())]
    if "$ref" in schema and (target := references.target("$ref", schema["$ref"], at)):
        inner.append((target.schema, target.at))
    for part, place in inner:
        if id(part) not in seen:
            seen.add(id(part))
            yield from _parts(part, place, references, seen)
