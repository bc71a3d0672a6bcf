"""What is noted about an answer: whether it is right, and if not, in which respect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from prompts.bench.cases import Call, Case, ExpectedCall
from prompts.bench.lenient import Failure, Reading, keyword_failures
from prompts.bench.scoring import Fault, FaultKind, check, check_call

_OF_ARGUMENTS: tuple[FaultKind, ...] = (
    "missing_required", "unexpected_parameter", "wrong_type", "wrong_value", "missing_optional",
    "no_match",
)  # fmt: skip


@dataclass(frozen=True)
class Marks:
    """`name_right`: just the expected tools were called; `arguments_right` is None if they
    were not, or none was expected. Optional arguments are counted over all calls. `valid` is by the
    tool's schema.
    """

    right: bool
    fault: FaultKind | None
    detail: str
    called: bool
    name_right: bool
    arguments_right: bool | None
    added_optional: int
    missing_optional: int
    valid_json: bool
    valid_schema: bool
    failures: tuple[Failure, ...]


def mark(case: Case, reading: Reading) -> Marks:
    """Marks of an answer with these calls."""
    fault: Fault | None = check(case, reading.calls)
    failures = (*reading.failures, *_schema_failures(case, reading.calls))
    valid_json = not {"broken_json", "cut_off"} & set(failures)
    name_right = _names_right(case, reading.calls)
    compares = name_right and case.need == "calls"
    pairs = list(_pairs(case, reading.calls))
    return Marks(
        right=fault is None and valid_json,
        fault=fault.kind if fault else None,
        detail=fault.text if fault else "",
        called=bool(reading.calls),
        name_right=name_right,
        arguments_right=(fault is None or fault.kind not in _OF_ARGUMENTS) if compares else None,
        added_optional=sum(_added(case, *pair) for pair in pairs),
        missing_optional=sum(_missing(case, *pair) for pair in pairs),
        valid_json=valid_json,
        valid_schema=not set(failures) - {"wrong_keys", "arguments_as_text"},
        failures=tuple(dict.fromkeys(failures)),
    )


def _names_right(case: Case, calls: Sequence[Call]) -> bool:
    if case.need == "some":
        return bool(calls)
    return Counter(one.name for one in calls) == Counter(one.name for one in case.expected)


def _pairs(case: Case, calls: Sequence[Call]) -> Iterator[tuple[ExpectedCall, Call]]:
    """Each expected call with one that is right for it, else with one of its name."""

    def is_right(expected: ExpectedCall, call: Call) -> bool:
        return check_call(case, expected, call) is None

    def has_its_name(expected: ExpectedCall, call: Call) -> bool:
        return call.name == expected.name

    left, waiting = list(calls), list(case.expected)
    for fits in (is_right, has_its_name):
        for expected in tuple(waiting):
            at = next((i for i, one in enumerate(left) if fits(expected, one)), None)
            if at is not None:
                waiting.remove(expected)
                yield expected, left.pop(at)


def _added(case: Case, expected: ExpectedCall, call: Call) -> int:
    """Optional arguments that no right answer has."""
    required = case.types[expected.name].get("required", ())
    allowed = {k for k, accepted in expected.accepted.items() if any(x != "" for x in accepted)}
    return sum(name not in required and name not in allowed for name in call.arguments)


def _missing(case: Case, expected: ExpectedCall, call: Call) -> int:
    """Optional arguments that every right answer has."""
    required = case.types[expected.name].get("required", ())
    return sum(
        name not in required and "" not in accepted and name not in call.arguments
        for name, accepted in expected.accepted.items()
    )


def _schema_failures(case: Case, calls: Sequence[Call]) -> Iterator[Failure]:
    for call in calls:
        schema = case.parameters(call.name)
        if schema is None:
            yield "unknown_tool"
            continue
        # The registry is empty: a reference to an address is not followed.
        validator = Draft202012Validator(
            schema, registry=Registry(), format_checker=FormatChecker()
        )
        try:
            keywords = [str(error.validator) for error in validator.iter_errors(call.arguments)]
        except (SchemaError, Unresolvable, RecursionError, re.error):
            keywords = ["$ref"]
        yield from keyword_failures(iter(keywords))
