"""The last word on a finished value: does it satisfy the client's schema?

`jsonschema` does the work. Replaced are the keywords that match patterns (its own use `re`, which
reads them differently and cannot be stopped) and `multipleOf` (its own rounds). Every keyword is
counted against a time limit: a schema may ask for work without end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import regex
from jsonschema import Draft202012Validator, FormatChecker, validators
from jsonschema.exceptions import ValidationError
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from server.schema import patterns
from server.schema.keywords import JsonObject, canonical
from server.schema.narrow import FORMAT_PATTERNS

FORMATS = frozenset("email ipv6 uuid".split())
"""Formats that are asserted, beside those with a pattern; any other is an annotation, as the
specification has it."""

LIMIT_S = 0.5  # of this thread's CPU time for one value: the engine waits for it
MAX_ERRORS = 16  # that are compared to find the first one in the text

Path = tuple[str | int, ...]
Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors]


class Uncheckable(ValueError):
    """The schema cannot be evaluated, or not in time."""


@dataclass(frozen=True)
class Complaint:
    """What a value breaks: a keyword, and the path of the offending part in the value."""

    keyword: str
    path: Path

    def __str__(self) -> str:
        return f"{self.keyword!r} at /{'/'.join(map(str, self.path))}"


class Checker:
    """Checks finished values against a schema in draft 2020-12.

    `registry` has what its references lead to.
    """

    def __init__(self, schema: JsonObject, registry: Any) -> None:
        self._schema = schema
        self._registry = registry
        self._patterns: dict[str, regex.Pattern[str]] = {}
        self._enums: dict[int, frozenset[str]] = {}

    def complaints(self, value: Any) -> list[Complaint]:
        """What a value breaks, some of it if it is much; empty if it satisfies the schema.

        Raises Uncheckable.
        """
        run = _Run(self._patterns, self._enums)
        # Without a registry the library would fetch what a reference names.
        validator = _Validator(self._schema, format_checker=run, registry=self._registry)
        try:
            errors = list(islice(validator.iter_errors(value), MAX_ERRORS))
        except (Unresolvable, NoSuchResource) as exc:
            raise Uncheckable(f"a reference leads nowhere: {str(exc)[:200]}") from None
        except patterns.BadPattern as exc:
            raise Uncheckable(f"it has something that is no pattern: {exc}") from None
        except RecursionError:
            raise Uncheckable("it refers to itself without end") from None
        except (TimeoutError, _OutOfTime):
            raise Uncheckable(f"it takes longer than {LIMIT_S:g} s") from None
        return [
            Complaint(str(error.validator or "false"), tuple(error.absolute_path))
            for error in errors
        ]


class _OutOfTime(Exception):
    pass


class _Run(FormatChecker):
    """One check: `jsonschema` carries it along as its format checker, to every keyword."""

    def __init__(
        self, compiled: dict[str, regex.Pattern[str]], enums: dict[int, frozenset[str]]
    ) -> None:
        super().__init__(FORMATS & FormatChecker.checkers.keys())
        self._compiled = compiled
        self._enums = enums  # by the identity of the list, which belongs to the schema
        self._deadline = time.thread_time() + LIMIT_S

    def left_s(self) -> float:
        """Seconds that are left. Raises _OutOfTime."""
        left = self._deadline - time.thread_time()
        if left <= 0:
            raise _OutOfTime
        return left

    def matches(self, pattern: str, text: str) -> bool:
        if pattern not in self._compiled:
            self._compiled[pattern] = regex.compile(patterns.read(pattern).check)
        return bool(self._compiled[pattern].search(text, timeout=self.left_s()))

    def among(self, value: Any, values: list[Any]) -> bool:
        """Whether a value is equal to one of those that an enum lists."""
        if id(values) not in self._enums:
            self._enums[id(values)] = frozenset(map(canonical, values))
        return canonical(value) in self._enums[id(values)]


def _timed(keyword: Keyword) -> Keyword:
    def timed(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
        validator.format_checker.left_s()
        yield from keyword(validator, value, instance, schema) or ()

    return timed


def _enum(validator: Any, values: list[Any], instance: Any, schema: Any) -> Errors:
    if not validator.format_checker.among(instance, values):
        yield ValidationError("is none of the values")


def _pattern(validator: Any, pattern: str, instance: Any, schema: JsonObject) -> Errors:
    if isinstance(instance, str) and not validator.format_checker.matches(pattern, instance):
        yield ValidationError(f"does not match {pattern!r}")


def _format(validator: Any, value: str, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, str):
        return
    if value not in FORMAT_PATTERNS:
        yield from Draft202012Validator.VALIDATORS["format"](validator, value, instance, schema)
    elif not validator.format_checker.matches(FORMAT_PATTERNS[value], instance):
        yield ValidationError(f"is no {value}")


def _pattern_properties(validator: Any, value: JsonObject, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        for pattern, inner in value.items():
            for name, member in instance.items():
                if validator.format_checker.matches(pattern, name):
                    yield from validator.descend(member, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        for name in instance.keys() - set(_listed(validator, instance, schema)):
            yield from validator.descend(instance[name], value, path=name)


def _listed(validator: Any, instance: JsonObject, schema: JsonObject) -> Iterator[str]:
    """The members that `properties` and `patternProperties` speak of."""
    yield from instance.keys() & schema.get("properties", {}).keys()
    for pattern in schema.get("patternProperties", {}):
        yield from (name for name in instance if validator.format_checker.matches(pattern, name))


def _unevaluated_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        evaluated = set(_evaluated(validator, instance, schema))
        for name in instance.keys() - evaluated:
            yield from validator.descend(instance[name], value, path=name)


def _evaluated(
    validator: Any, instance: JsonObject, schema: Any, own: bool = True
) -> Iterator[str]:
    """The members that a schema evaluates; `own`: beside its own `unevaluatedProperties`."""
    if not isinstance(schema, dict):
        return
    validator.format_checker.left_s()
    yield from _listed(validator, instance, schema)
    if "additionalProperties" in schema or (not own and "unevaluatedProperties" in schema):
        yield from instance
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            found = validator._resolver.lookup(schema[keyword])
            inside = validator.evolve(schema=found.contents, _resolver=found.resolver)
            yield from _evaluated(inside, instance, found.contents, own=False)
    for inner in _applied(validator, instance, schema):
        resolver = validator._resolver
        if isinstance(inner, dict) and "$id" in inner:
            resolver = resolver.in_subresource(DRAFT202012.create_resource(inner))
        inside = validator.evolve(schema=inner, _resolver=resolver)
        yield from _evaluated(inside, instance, inner, own=False)


def _applied(validator: Any, instance: JsonObject, schema: JsonObject) -> Iterator[Any]:
    """The subschemas that hold for the same object, of those that need not."""

    def holds(inner: Any) -> bool:
        return next(validator.descend(instance, inner), None) is None

    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from (inner for inner in schema.get(keyword, ()) if holds(inner))
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in instance:
            yield inner
    if "if" in schema:
        if holds(schema["if"]):
            yield schema["if"]
            yield schema.get("then", True)
        else:
            yield schema.get("else", True)


def _multiple_of(validator: Any, step: float, instance: Any, schema: Any) -> Errors:
    if validator.is_type(instance, "number") and math.isfinite(instance):
        # The numbers as they are written: 0.3 is a multiple of 0.1.
        if (Fraction(repr(instance)) / Fraction(repr(step))).denominator != 1:
            yield ValidationError(f"no multiple of {step!r}")


_Validator: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        keyword: _timed(function)
        for keyword, function in {
            **Draft202012Validator.VALIDATORS,
            "enum": _enum,
            "pattern": _pattern,
            "format": _format,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "unevaluatedProperties": _unevaluated_properties,
            "multipleOf": _multiple_of,
        }.items()
    },
)
