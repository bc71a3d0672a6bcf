from __future__ import annotations

from dataclasses import replace

import pytest

from prompts.bench.cases import check_unique
from server.errors import SetupError
from tests.prompts.bench.samples import case


def test_ids_are_unique() -> None:
    one, other = case(id="a"), replace(case(id="a"), source="b/weather.yaml: case 1")
    check_unique([one, case(id="b")])
    with pytest.raises(SetupError, match=r"one of simple_python, one of b/weather\.yaml: case 1"):
        check_unique([one, case(id="b"), other])
