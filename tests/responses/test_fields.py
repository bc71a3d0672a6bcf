from __future__ import annotations

import inspect

import pytest
from openai.resources.responses import Responses
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from server.responses.fields import ACCEPTED, EXTENSIONS, REFUSED
from server.responses.request import ResponsesRequest
from tests.responses.test_request import parsed, refused

HONOURED = set(ResponsesRequest.model_fields)
TRANSPORT = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}


def test_every_field_of_the_sdk_is_in_exactly_one_group() -> None:
    known = (
        ResponseCreateParamsNonStreaming.__annotations__
        | ResponseCreateParamsStreaming.__annotations__
    ).keys()
    arguments = inspect.signature(Responses.create).parameters.keys() - TRANSPORT
    groups = [HONOURED, set(ACCEPTED), set(REFUSED)]
    for field in known | arguments:
        assert sum(field in group for group in groups) == 1, field
    assert sum(map(len, groups)) == len(set().union(*groups))


@pytest.mark.parametrize("field", sorted(ACCEPTED))
def test_a_field_that_cannot_matter_takes_any_value(field: str) -> None:
    for value in ("x", 1, {"a": [None]}, None):
        assert parsed(**{field: value}) == parsed()


@pytest.mark.parametrize("field", sorted(REFUSED | EXTENSIONS))
def test_a_field_that_is_not_honoured_is_refused_by_name(field: str) -> None:
    error = refused(**{field: {"name": "x"}})
    assert error.param == field
    assert field in error.message
    assert error.code == "unsupported_parameter"


@pytest.mark.parametrize("field", sorted(REFUSED | EXTENSIONS))
def test_a_refused_field_passes_where_it_asks_for_nothing(field: str) -> None:
    for value in (None, *(REFUSED | EXTENSIONS)[field].harmless):
        assert parsed(**{field: value}) == parsed()


def test_no_field_is_both_honoured_and_refused() -> None:
    assert HONOURED.isdisjoint(EXTENSIONS)
    for refused_field in EXTENSIONS.values():
        assert "response_format" not in refused_field.why
        assert "max_tokens" not in refused_field.why


def test_unknown_fields_are_tolerated() -> None:
    assert parsed(flavour_of_the_day="mint", extra={"a": 1}) == parsed()
