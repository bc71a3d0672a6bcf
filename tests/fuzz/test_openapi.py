"""Schemathesis: what the OpenAPI document promises holds, for valid bodies and for broken ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis.errors import Unsatisfiable

from tests.fuzz.answers import INTENDED
from tests.fuzz.rounds import HANGS_S, fuzz, noise
from tests.serving import live, rig

schemathesis = pytest.importorskip("schemathesis")
pytestmark = pytest.mark.fuzz

SHARE = 0.25
CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_operation(mode: str, seconds: float, tell: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()
    made = rig(noise, context_length=512)
    described = schemathesis.openapi.from_dict(made.app.openapi())
    checks = [getattr(schemathesis.checks, name) for name in CHECKS]
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) >= 8
    with live(made) as serving:

        def check(case: Any) -> None:
            answer = case.call(base_url=serving.url, timeout=HANGS_S)
            seen[str(answer.status_code)] += 1
            if answer.status_code >= 500:
                assert answer.json()["error"]["code"] in INTENDED, answer.text
            case.validate_response(answer, checks=checks)

        tried = 0
        for operation in operations:
            bodies = operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode])
            with suppress(Unsatisfiable):  # where nothing is asked for, nothing can be wrong
                tried += fuzz(bodies, check, seconds * SHARE / 2 / len(operations))
    tell(f"{tried}, {dict(seen)}")
    assert seen["200" if mode == "POSITIVE" else "400"] > 0
