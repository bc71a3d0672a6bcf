"""The official test suite through the whole pipeline: the grammar, then the final check.

Each schema is that of a tool's parameter. What is valid must be accepted in our spelling, or the
schema refused; what is invalid must never be accepted.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from prompts.conversation import PastCall
from prompts.formats import HERMES, render_calls
from server.constraint import ConstraintCompiler
from server.engine.vocabulary import Vocabulary
from server.errors import InvalidRequest
from server.plan import Callee, Plan
from tests.driving import verdict
from tests.fakes import byte_vocabulary
from tests.schema.official import Case, NotAtHand, cases, fetch_suite

DIALECTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}

# Valid instances of draft 2020-12 that are never written, by the limit that rules them out.
CLOSED = "an object whose members are listed has no others"
ORDER = "members come in the order of the schema"
NUMBERS = "a whole number is written without a fraction"
FORMATS = "a format that is known is enforced, not only noted"
ALTERNATIVES = "an object is closed over each alternative"
DIALECT = "there is one dialect"
LIMITS = {
    ("additionalProperties: additionalProperties are allowed by default", CLOSED),
    ("allOf: allOf", ORDER),
    ("allOf: allOf with base schema", ORDER),
    ("anyOf: anyOf complex types", ALTERNATIVES),
    ("const: const with object", ORDER),
    ("const: const with 0 does not match other zero-like types", NUMBERS),
    ("const: const with 1 does not match true", NUMBERS),
    ("const: const with -2.0 matches integer and float types", NUMBERS),
    ("const: float and integers are equal up to 64-bit representation limits", NUMBERS),
    ("dependentSchemas: dependent subschema incompatible with root", CLOSED),
    ("enum: enum with 0 does not match false", NUMBERS),
    ("enum: enum with [0] does not match [false]", NUMBERS),
    ("enum: enum with 1 does not match true", NUMBERS),
    ("enum: enum with [1] does not match [true]", NUMBERS),
    *(
        (f"format: {name} format", FORMATS)
        for name in "email ipv4 ipv6 hostname date date-time time uri uuid duration".split()
    ),
    ("not: forbidden property", CLOSED),
    ("properties: object properties validation", CLOSED),
    ("type: integer type matches integers", NUMBERS),
    ("unevaluatedProperties: unevaluatedProperties with anyOf", ALTERNATIVES),
    ("unevaluatedProperties: unevaluatedProperties with $ref", ORDER),
    ("vocabulary: schema that uses custom metaschema with with no validation vocabulary", DIALECT),
}


@dataclass
class Result:
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    limits: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest) -> Path:
    assert request.config.cache is not None
    try:
        return fetch_suite(request.config.cache.mkdir("json-schema-suite"))
    except NotAtHand as exc:
        pytest.skip(f"the official test suite is not at hand: {exc}")


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return byte_vocabulary()


@pytest.fixture(scope="module")
def compiler(vocabulary: Vocabulary) -> ConstraintCompiler:
    return ConstraintCompiler(vocabulary, can_retry=True)


def wrapped(case: Case, draft: str) -> dict[str, Any]:
    """The schema as that of a parameter, with an identifier so that its pointers still hold."""
    schema = case.schema
    key = "id" if draft == "draft4" else "$id"
    if isinstance(schema, dict) and key not in schema:
        schema = {key: "urn:example:root", **schema}
    return {
        "$schema": DIALECTS[draft],
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
    }


def run(compiler: ConstraintCompiler, vocabulary: Vocabulary, suite: Path, draft: str) -> Result:
    result = Result()
    for case in cases(suite, draft):
        tool = Callee("t", wrapped(case, draft), "tools[0].function.parameters")
        try:
            constraint = compiler.compile_now(Plan(HERMES, "required", (tool,), parallel=False))
        except InvalidRequest as exc:
            result.counts["refused"] += len(case.instances)
            result.refused.append((case.name, exc.message))
            continue
        for description, value, valid in case.instances:
            arguments = json.dumps({"value": value}, ensure_ascii=False)
            text = render_calls(HERMES, [PastCall("", "t", arguments)])
            found = verdict(constraint, vocabulary, text)
            result.counts[f"{'valid' if valid else 'invalid'}: {found}"] += 1
            if valid and found == "grammar":
                result.limits.append((case.name, description))
            elif valid != (found == "accepted") or found == "late":
                result.wrong.append((case.name, description, found))
    return result


def test_draft_2020_12(compiler: ConstraintCompiler, vocabulary: Vocabulary, suite: Path) -> None:
    result = run(compiler, vocabulary, suite, "draft2020-12")
    print(result.counts)
    assert result.wrong == []
    assert {name for name, _ in result.limits} == {name for name, _ in LIMITS}
    assert len(result.limits) == len(LIMITS)
    # What is refused demands something from elsewhere, or is satisfied by nothing.
    for name, message in result.refused:
        assert "nothing is fetched" in message or "Unsatisfiable" in message, (name, message)
    assert len(result.refused) == 28
    assert result.counts.total() > 1200


@pytest.mark.parametrize("draft", ["draft2019-09", "draft7", "draft6", "draft4"])
def test_older_drafts(
    compiler: ConstraintCompiler, vocabulary: Vocabulary, suite: Path, draft: str
) -> None:
    result = run(compiler, vocabulary, suite, draft)
    print(result.counts)
    assert result.wrong == []
    assert result.counts["refused"] < 0.09 * result.counts.total()
    assert len(result.limits) < 0.04 * result.counts.total()
