"""Whatever a client sends costs it at most an error that says what is wrong."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server.errors import InvalidRequest, TooLarge
from server.responses.items import REFERENCE, as_kept, kind_of, read_items
from server.responses.request import parse_responses_request
from server.responses.translate import to_chat
from server.wire.history import to_conversation
from server.wire.replies import error_reply, to_json
from tests.wire.builders import LIMITS
from tests.wire.test_fuzz import anything, ids, loose, maybe, names, schema

part = loose(
    {"type": maybe(st.sampled_from(["input_text", "output_text", "refusal", "input_image"]))},
    text=st.text(),
)
content = maybe(st.text(max_size=9) | st.lists(part, max_size=3))
reasoning_parts = maybe(st.lists(loose(text=st.text(max_size=5)), max_size=2))
item = (
    loose({"role": maybe(st.sampled_from(["user", "assistant", "system"])), "content": content})
    | loose(
        {"type": st.just("function_call"), "call_id": ids, "name": names},
        arguments=maybe(st.sampled_from(["", "{}", '{"a": 1}', '{"a'])),
        id=ids,
    )
    | loose({"type": st.just("custom_tool_call"), "call_id": ids, "name": names}, input=content)
    | loose({"type": st.just("function_call_output"), "call_id": ids}, output=content)
    | loose(
        {"type": st.just("reasoning")},
        content=reasoning_parts,
        summary=reasoning_parts,
        encrypted_content=maybe(st.text(max_size=5)),
    )
    | loose({"id": ids}, type=maybe(st.just("item_reference")))
)
tool = loose(
    {"type": maybe(st.sampled_from(["function", "custom"])), "name": names},
    parameters=schema,
    format=loose({"type": st.sampled_from(["text", "grammar"])}, syntax=st.just("regex")),
)
choice = maybe(
    st.sampled_from(["none", "auto", "required"])
    | loose({"type": st.just("function")}, name=names)
    | loose({"type": st.just("allowed_tools")}, mode=st.just("auto"), tools=st.lists(tool))
)
request = loose(
    {"model": maybe(st.just("m")), "input": maybe(st.text() | st.lists(item, max_size=5))},
    tools=maybe(st.lists(tool, max_size=3)),
    tool_choice=choice,
    text=loose(format=loose({"type": st.just("json_schema")}, name=names, schema=schema)),
    reasoning=loose(effort=maybe(st.just("low")), summary=maybe(st.just("auto"))),
    include=maybe(st.lists(st.just("reasoning.encrypted_content"), max_size=2)),
    metadata=maybe(st.dictionaries(st.text(max_size=4), st.text(), max_size=2)),
    instructions=maybe(st.text()),
    store=anything,
    seed=anything,
)


def taken(value: Any) -> bool:
    """Whether a body is taken; if not, its error is fit to be sent."""
    try:
        wanted = parse_responses_request(json.dumps(value).encode(), LIMITS)
        raw = [one for one in wanted.input if kind_of(one) != REFERENCE]
        items = read_items(raw)
        made = to_chat(wanted, (), items) if items else None
    except (InvalidRequest, TooLarge) as exc:
        error = json.loads(to_json(error_reply(exc)))["error"]
        assert 0 < len(error["message"]) < 2000
        assert len(error["param"] or "") < 1000
        assert "messages[" not in (error["param"] or "")
        return False
    kept = as_kept(raw)
    assert [type(one) for one in read_items(kept)] == [type(one) for one in items]
    assert len({one["id"] for one in kept}) == len(kept)
    if made is not None:
        try:
            to_conversation(made.request)
        except InvalidRequest as exc:
            told = made.restated(exc)
            assert "messages[" not in (told.param or "")
            return False
    return True


@settings(deadline=None)
@given(anything)
def test_any_json(value: Any) -> None:
    taken(value)


@settings(deadline=None)
@given(request)
def test_anything_like_a_request(value: Any) -> None:
    taken(value)


def test_the_fuzzer_reaches_requests_that_are_taken() -> None:
    outcomes = []

    @settings(deadline=None, derandomize=True, database=None)
    @given(request)
    def collect(value: Any) -> None:
        outcomes.append(taken(value))

    collect()
    assert sum(outcomes) >= 5
