"""Keywords whose values the back end reads otherwise, or cannot hold: numbers and formats.

Where a value cannot be taken as it is, a narrower one is: what is written is then always valid, and
some values that are valid are never written. These are the limits of canonical form.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from server.schema.keywords import JsonObject, Refusal, types_of

EXACT = 2**53  # from here on a double skips whole numbers, and the back end counts in doubles
LARGEST_INTEGER = 2**63 - 1024
DIGITS = 15  # that every double holds
LARGEST_NUMBER: int = 10**DIGITS
LONGEST = 2**31  # of texts: no answer comes near
MOST = 50_000  # items or members that are counted one by one

ROUNDED_UP = ("minimum", "exclusiveMaximum")  # onto a multiple, without taking one in or out
OPPOSITE = {
    "exclusiveMinimum": ("maximum", "exclusiveMaximum"),
    "exclusiveMaximum": ("minimum", "exclusiveMinimum"),
}

_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP}-02-29)"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_CLOCK}:[0-5][0-9](?:\.[0-9]{{1,9}})?(?:Z|[+-]{_CLOCK})"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

FORMAT_PATTERNS = {
    # Days that exist, capital letters and no leap seconds: what every reader takes.
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "ipv4": rf"^(?:{_BYTE}\.){{3}}{_BYTE}$",
}
BACKEND_FORMATS = frozenset("duration email hostname ipv6 uuid uri".split())


def bound(keyword: str, schema: JsonObject, pointer: str) -> float:
    """A bound of numbers that the back end holds exactly, the given one or a narrower one.

    Raises Refusal where that leaves nothing.
    """
    limit = largest(schema)
    value = _on_grid(keyword, schema)
    lower = keyword in ("minimum", "exclusiveMinimum")
    if value > limit if lower else value < -limit:
        raise Refusal(pointer, keyword, f"numbers beyond {limit:.0e} cannot be held exactly")
    if abs(value) > limit:
        return -limit if lower else limit
    if isinstance(value, int) and abs(value) > EXACT and int(float(value)) != value:
        nearest = float(value)
        inwards = nearest >= value if lower else nearest <= value
        return int(
            nearest if inwards else math.nextafter(nearest, math.inf if lower else -math.inf)
        )
    return value


def largest(schema: JsonObject) -> float:
    """The largest number that is held exactly, by the back end and by who reads it as a double.

    A multiple of a step has as many decimals, and a double has 15 digits in all.
    """
    if "number" not in types_of(schema):
        return LARGEST_INTEGER
    step: float = schema.get("multipleOf", 1)
    limit: int = LARGEST_NUMBER // 10 ** min(decimals(step), DIGITS)
    return limit


def decimals(number: float) -> int:
    """How many digits a number has after its point."""
    denominator = Fraction(repr(number)).denominator
    return next(n for n in range(400) if not 10**n % denominator)


def lets_bound_through(keyword: str, schema: JsonObject, *, beside: bool) -> bool:
    """Whether the back end may take an exclusive bound for an inclusive one.

    So does llguidance 1.9.1 with a whole number, where the other bound is less than one away.
    `beside`: others may have bounds for the same value.
    """
    if keyword not in OPPOSITE or "number" not in types_of(schema):
        return False
    value = _on_grid(keyword, schema)
    others = [_on_grid(each, schema) for each in OPPOSITE[keyword] if each in schema]
    return value == int(value) and (beside or any(abs(other - value) < 1 for other in others))


def _on_grid(keyword: str, schema: JsonObject) -> float:
    """A bound; beside `multipleOf`, a multiple that lets the same multiples through.

    Numbers as they are written. llguidance 1.9.1 writes a number with as many decimals as its
    bounds have, of which `multipleOf` may allow for fewer.
    """
    value: float = schema[keyword]
    if "multipleOf" not in schema:
        return value
    step = Fraction(repr(schema["multipleOf"]))
    steps = Fraction(repr(value)) / step
    exact = step * (math.ceil(steps) if keyword in ROUNDED_UP else math.floor(steps))
    rounded = int(exact) if exact.denominator == 1 else float(exact)
    return rounded if Fraction(repr(rounded)) == exact else value


def holdable(value: Any) -> bool:
    """Whether all numbers in a literal value are ones that the back end holds exactly."""
    if isinstance(value, list):
        return all(map(holdable, value))
    if isinstance(value, dict):
        return all(map(holdable, value.values()))
    if isinstance(value, float):
        return abs(value) <= LARGEST_NUMBER
    return not isinstance(value, int) or abs(value) <= EXACT
