import inspect
from typing import Any

import pytest
from openai.resources.chat.completions import Completions
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from server.wire.chat import ChatRequest
from server.wire.fields import ACCEPTED, CONSTRAINTS, EXTENSIONS, REFUSED
from tests.wire.builders import ask, refused

HONOURED = set(ChatRequest.model_fields)
NOT_HONOURED = {
    name: why for name, why in (REFUSED | EXTENSIONS | CONSTRAINTS).items() if name not in HONOURED
}
TRANSPORT = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}


def test_every_field_of_the_sdk_is_in_exactly_one_group() -> None:
    known = (
        CompletionCreateParamsNonStreaming.__annotations__
        | CompletionCreateParamsStreaming.__annotations__
    ).keys()
    arguments = inspect.signature(Completions.create).parameters.keys() - TRANSPORT
    groups = [HONOURED, set(ACCEPTED), set(NOT_HONOURED)]
    for field in known | arguments:
        assert sum(field in group for group in groups) == 1, field
    assert sum(map(len, groups)) == len(set().union(*groups))


@pytest.mark.parametrize("field", sorted(ACCEPTED))
def test_a_field_that_cannot_matter_takes_any_value(field: str) -> None:
    for value in ("x", 1, {"a": [None]}, None):
        assert ask(**{field: value}) == ask()


@pytest.mark.parametrize("field", sorted(NOT_HONOURED))
def test_a_field_that_is_not_honoured_is_refused_by_name(field: str) -> None:
    error = refused(**{field: {"name": "x"}})
    assert error.param == field
    assert field in error.message
    assert error.code == "unsupported_parameter"


@pytest.mark.parametrize("field", sorted(NOT_HONOURED))
def test_a_refused_field_passes_where_it_asks_for_nothing(field: str) -> None:
    for value in (None, *NOT_HONOURED[field].harmless):
        assert ask(**{field: value}) == ask()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("modalities", ["text", "audio"]),
        ("best_of", True),
        ("best_of", 2),
        ("mirostat", 2),
        ("mirostat", False),
        ("typical_p", 0.9),
        ("echo", True),
        ("skip_special_tokens", False),
        ("grammar", "root ::= x"),
        ("repeat_last_n", 64),
    ],
)
def test_values_that_look_harmless_but_are_not(field: str, value: Any) -> None:
    assert refused(**{field: value}).param == field


def test_unknown_fields_are_tolerated() -> None:
    assert ask(flavour_of_the_day="mint", extra={"a": 1}) == ask()
