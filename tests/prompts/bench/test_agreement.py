"""The answers on which the two judges are held against each other."""

from __future__ import annotations

import random

from prompts.bench.scoring import check
from tests.prompts.bench.mutations import mutations
from tests.prompts.bench.samples import case


def test_mutations_are_right_and_wrong_as_their_names_say() -> None:
    truth = {"get_weather": {"city": ["Porto"], "days": [3, ""], "limit": [2.5]}}
    one = case(truth)
    for seed in range(20):
        verdicts = {kind: check(one, calls) for kind, calls in mutations(one, random.Random(seed))}
        assert verdicts["right"] is None
        assert verdicts["case_and_spaces"] is None
        for kind in ("extra", "wrong_type", "wrong_name", "more_calls"):
            assert verdicts[kind] is not None, kind
