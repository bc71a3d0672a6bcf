import json
from typing import Any

import pytest

from server.errors import Busy, CallwrightError, ContextOverflow, InvalidRequest
from server.events import Usage
from server.wire.replies import error_reply, model_list, to_json, token_usage


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (
            InvalidRequest("stop: no", param="stop"),
            {"message": "stop: no", "type": "invalid_request_error", "param": "stop", "code": None},
        ),
        (
            ContextOverflow("9000 of 8192", param="messages"),
            {
                "message": "9000 of 8192",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            },
        ),
        (
            Busy("later", retry_after_s=3),
            {
                "message": "later",
                "type": "rate_limit_error",
                "param": None,
                "code": "queue_full",
            },
        ),
    ],
)
def test_an_error_has_all_four_keys(error: CallwrightError, wanted: dict[str, Any]) -> None:
    assert error_reply(error) == {"error": wanted}


def test_an_error_message_does_not_run_on() -> None:
    assert len(error_reply(InvalidRequest("x" * 10**6))["error"]["message"]) < 2000


def test_usage_adds_up() -> None:
    assert token_usage(Usage(30, 12, cached_tokens=20, reasoning_tokens=5)) == {
        "prompt_tokens": 30,
        "completion_tokens": 12,
        "total_tokens": 42,
        "prompt_tokens_details": {"cached_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }


def test_a_model_is_listed_under_each_name() -> None:
    listed = model_list(["main", "alias"], 7)
    assert listed["object"] == "list"
    assert [one["id"] for one in listed["data"]] == ["main", "alias"]
    assert listed["data"][0] == {
        "id": "main",
        "object": "model",
        "created": 7,
        "owned_by": "callwright",
    }


def test_json_is_compact_raw_utf8_and_never_fails_on_text() -> None:
    assert to_json({"a": ["Grüße, 東京"]}) == '{"a":["Grüße, 東京"]}'.encode()
    assert json.loads(to_json({"a": "x\ud83d"})) == {"a": "x?"}
