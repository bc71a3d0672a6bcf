from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import sse
from server.errors import Busy, CallwrightError, ConstraintFailed, InvalidRequest
from server.events import (
    CallArguments,
    CallBegins,
    CallEnds,
    Event,
    Finish,
    FinishReason,
    Logprobs,
    Reasoning,
    ScoredToken,
    Text,
    TokenLogprob,
    Usage,
)
from server.responses.items import unseal
from server.responses.reply import ResponseWriter
from server.responses.service import frame
from server.responses.types import StreamEvent
from tests.responses.helpers import folded, read_stream
from tests.responses.test_request import parsed

USAGE = Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=4, reasoning_tokens=2)


def writer(*, seals: bool = False) -> ResponseWriter:
    return ResponseWriter(frame(parsed(), stored=True), seals_reasoning=seals)


def streamed(events: list[StreamEvent]) -> list[dict[str, Any]]:
    """Events as a client reads them, held to the SDK's types."""
    blocks = [
        f"event: {one['type']}\n".encode() + sse.event(json.dumps(one).encode()) for one in events
    ]
    return read_stream(b"".join(blocks).decode())


def answer(
    *events: Event, reason: FinishReason = "stop", seals: bool = False, **timings: float
) -> dict[str, Any]:
    """The finished response; that its stream says the same is checked on the way."""
    made = writer(seals=seals)
    told = made.opening()
    for event in (*events, Finish(reason, USAGE, timings or None)):
        told += made.write(event, now=7)
    told += made.closing()
    response = folded(streamed(told))
    assert response == dict(made.response)
    return response


def call(index: int, *pieces: str, custom: bool = False, ends: bool = True) -> list[Event]:
    events: list[Event] = [CallBegins(index, f"call{index:05d}", "look", custom)]
    events += [CallArguments(index, piece) for piece in pieces]
    return [*events, CallEnds(index)] if ends else events


def test_text_is_one_message() -> None:
    response = answer(Text("Hel"), Text(""), Text("lo."))
    [item] = response["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"] == [
        {"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}
    ]
    assert (response["status"], response["completed_at"]) == ("completed", 7)
    assert response["incomplete_details"] is None
    assert response["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }


def test_everything_in_its_order_is_an_item_each() -> None:
    events = [
        Reasoning("Hm"),
        Reasoning("."),
        Text("So: "),
        *call(0, '{"a"', ": 1}"),
        *call(1, "{}"),
    ]
    response = answer(*events, reason="tool_calls")
    assert [item["type"] for item in response["output"]] == [
        "reasoning", "message", "function_call", "function_call",
    ]  # fmt: skip
    thought, _, first, second = response["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert thought["summary"] == []
    assert "encrypted_content" not in thought
    assert (first["call_id"], first["arguments"]) == ("call00000", '{"a": 1}')
    assert (second["call_id"], second["arguments"]) == ("call00001", "{}")
    assert [item["id"].split("_")[0] for item in response["output"]] == ["rs", "msg", "fc", "fc"]


def test_reasoning_is_sealed_where_it_is_asked_for() -> None:
    thought, _ = answer(Reasoning("Hm."), Text("Yes."), seals=True)["output"]
    assert unseal(thought["encrypted_content"]) == "Hm."


def test_the_input_of_a_custom_call_is_a_text_and_may_be_empty() -> None:
    response = answer(*call(0, "SELECT", " 1", custom=True), *call(1, custom=True))
    first, second = response["output"]
    assert (first["type"], first["input"]) == ("custom_tool_call", "SELECT 1")
    assert (second["type"], second["input"]) == ("custom_tool_call", "")


def test_an_answer_without_anything_is_an_empty_message() -> None:
    [item] = answer()["output"]
    assert item["content"][0]["text"] == ""
    [cut] = answer(reason="length")["output"]
    assert cut["status"] == "incomplete"


def test_reasoning_is_followed_by_an_answer_unless_it_was_cut() -> None:
    thought, item = answer(Reasoning("Hm."))["output"]
    assert (thought["status"], item["content"][0]["text"]) == ("completed", "")
    [cut] = answer(Reasoning("Hm"), reason="length")["output"]
    assert (cut["type"], cut["status"]) == ("reasoning", "incomplete")


def test_a_cut_text_says_so() -> None:
    response = answer(Text("Hel"), reason="length")
    assert (response["status"], response["completed_at"]) == ("incomplete", None)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    [item] = response["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hel")


def test_a_cut_call_is_shown_as_far_as_it_got_and_never_called_done() -> None:
    response = answer(*call(0, "{}"), *call(1, '{"a"', ends=False), reason="length")
    whole, cut = response["output"]
    assert whole["status"] == "completed"
    assert (cut["status"], cut["arguments"]) == ("incomplete", '{"a"')


def test_a_call_cut_before_its_arguments_is_not_shown() -> None:
    [item] = answer(Text("x"), *call(0, ends=False), reason="length")["output"]
    assert item["type"] == "message"


def test_log_probabilities_are_told_with_the_text_they_are_of() -> None:
    def scored(*pieces: bytes) -> Logprobs:
        top = (TokenLogprob(b"Y", -0.25),)
        return Logprobs(tuple(ScoredToken(TokenLogprob(one, -1.5), top) for one in pieces))

    response = answer(
        scored(b"H", b"i"), Text("Hi"), scored(b"."), Text("."), scored(b"<"), *call(0, "{}")
    )
    entries = response["output"][0]["content"][0]["logprobs"]
    assert [entry["token"] for entry in entries] == ["H", "i", "."]
    top = [{"token": "Y", "logprob": -0.25, "bytes": [89]}]
    assert entries[2] == {"token": ".", "logprob": -1.5, "bytes": [46], "top_logprobs": top}


def test_where_the_time_went_is_told_where_it_is_asked_for() -> None:
    assert answer(Text("x"), prefill_s=0.5)["timings"] == {"prefill_s": 0.5}
    assert "timings" not in answer(Text("x"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CallwrightError("the server failed"), "server_error"),
        (ConstraintFailed("no way out"), "server_error"),
        (Busy("full", retry_after_s=1), "rate_limit_exceeded"),
        (InvalidRequest("bad", param="input"), "invalid_prompt"),
    ],
)
def test_a_failure_shows_what_was_finished_and_then_the_error(
    error: CallwrightError, code: str
) -> None:
    made = writer()
    told = made.opening()
    for event in (*call(0, "{}"), Text("unfinished")):
        told += made.write(event, now=7)
    told += made.failed(error, now=8)
    *_, failed, last = streamed(told)
    assert failed["type"] == "response.failed"
    response = failed["response"]
    assert response["status"] == "failed"
    assert response["error"] == {"code": code, "message": error.message}
    assert [item["type"] for item in response["output"]] == ["function_call"]
    assert last["type"] == "error"
    for place in (last, last["error"]):
        assert place["message"] == error.message
        assert (place["code"], place["param"]) == (error.code, error.param)


pieces = st.lists(st.text(max_size=3), max_size=3)
events = st.lists(
    st.one_of(
        st.builds(lambda texts: [Text(text) for text in texts], pieces),
        st.builds(lambda texts: [Reasoning(text) for text in texts], pieces),
        st.builds(
            lambda texts, custom, index: call(index, *texts, custom=custom),
            pieces,
            st.booleans(),
            st.integers(0, 9),
        ),
    ),
    max_size=6,
)


@settings(deadline=None)  # the SDK's types take their time on a busy machine
@given(events, st.sampled_from(["stop", "tool_calls", "length"]))
def test_whatever_happens_the_stream_adds_up(
    groups: list[list[Event]], reason: FinishReason
) -> None:
    answer(*(event for group in groups for event in group), reason=reason)
