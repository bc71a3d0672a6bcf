import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from server.errors import ConstraintFailed
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
from server.reply import ChunkWriter, fold
from server.sse import PING
from server.wire.replies import to_json
from tests.langchain4j import Call, FinalMessage, LiveCalls

HEAD: dict[str, Any] = {"id": "chatcmpl-1", "created": 7, "model": "m"}
USAGE = Usage(30, 12, cached_tokens=20, reasoning_tokens=5)
CALL: tuple[Event, ...] = (
    CallBegins(0, "abcDEF123", "look"),
    CallArguments(0, '{"shelf":'),
    CallArguments(0, ' "B"}'),
    CallEnds(0),
)


def writer(*, include_usage: bool = True) -> ChunkWriter:
    return ChunkWriter(**HEAD, include_usage=include_usage)


def streamed(events: Iterable[Event], *, include_usage: bool = True) -> bytes:
    chunks = writer(include_usage=include_usage)
    return chunks.opening() + b"".join(map(chunks.write, events)) + chunks.done()


def payloads(stream: bytes) -> Iterator[Any]:
    """The JSON of each event, by the rules of server-sent events, `[DONE]` checked and left out."""
    *blocks, rest = stream.decode().split("\n\n")
    assert rest == ""
    assert blocks.pop() == "data: [DONE]"
    for block in blocks:
        assert block.startswith("data: ")
        assert "\n" not in block
        yield json.loads(block.removeprefix("data: "))


def refolded(stream: bytes) -> dict[str, Any]:
    """The plain answer that the deltas add up to, held to the rules of a stream on the way."""
    message: dict[str, Any] = {}
    calls: list[dict[str, Any]] = []
    finish_reason = usage = None
    scored: list[Any] = []
    for chunk in payloads(stream):
        assert list(chunk)[:5] == ["id", "object", "created", "model", "choices"]
        assert chunk["object"] == "chat.completion.chunk"
        assert {key: chunk[key] for key in HEAD} == HEAD
        assert usage is None, "something follows the usage"
        usage = chunk.get("usage")
        for choice in chunk["choices"]:
            assert usage is None
            scored += choice.pop("logprobs", {"content": []})["content"]
            assert set(choice) == {"index", "delta", "finish_reason"}
            assert finish_reason is None, "something follows the finish_reason"
            finish_reason = choice["finish_reason"]
            delta = choice["delta"]
            assert None not in delta.values()
            assert ("role" in delta) == (not message)
            add_call_deltas(calls, delta.pop("tool_calls", []))
            for key, text in delta.items():
                message[key] = message.get(key, "") + text
    if calls:
        message["tool_calls"] = calls
    content = message.pop("content", None)
    logprobs = {"logprobs": {"content": scored}} if scored else {}
    return {
        "id": HEAD["id"],
        "object": "chat.completion",
        "created": HEAD["created"],
        "model": HEAD["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": message.pop("role"), "content": content, **message},
                "finish_reason": finish_reason,
                **logprobs,
            }
        ],
        "usage": usage,
    }


def add_call_deltas(calls: list[dict[str, Any]], deltas: list[dict[str, Any]]) -> None:
    for delta in deltas:
        if delta["index"] == len(calls):
            assert list(delta) == ["index", "id", "type", "function"]
            assert list(delta["function"]) == ["name", "arguments"]
            assert delta["function"]["arguments"] == ""
            calls.append({key: delta[key] for key in ("id", "type", "function")})
        else:
            assert delta["index"] == len(calls) - 1
            assert set(delta) == {"index", "function"}
            assert set(delta["function"]) == {"arguments"}
            assert delta["function"]["arguments"]
            calls[-1]["function"]["arguments"] += delta["function"]["arguments"]


def calls_seen_by(reader: FinalMessage | LiveCalls, stream: bytes) -> list[Call]:
    for chunk in payloads(stream):
        for choice in chunk["choices"]:
            for delta in choice["delta"].get("tool_calls", []):
                reader.take(delta)
    return reader.end()


NO_HURRY = settings(deadline=None)
pieces = st.text(st.characters(codec="utf-8"), max_size=6)
likely = st.builds(TokenLogprob, st.binary(max_size=4), st.floats(-9999, 0))
scores = st.builds(
    Logprobs, st.lists(st.builds(ScoredToken, likely, st.tuples(likely)), max_size=2).map(tuple)
)


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    """Events in an order that a parser may produce: reasoning, text, calls; cut anywhere."""
    events: list[Event] = [*map(Reasoning, draw(st.lists(pieces, max_size=3)))]
    events += map(Text, draw(st.lists(pieces, max_size=4)))
    call_count = draw(st.integers(0, 3))
    for index in range(call_count):
        name = draw(st.text("abc.-_", min_size=1, max_size=6))
        events.append(CallBegins(index, f"{index:09d}", name))
        events.append(CallArguments(index, "{" + draw(pieces)))
        events += (CallArguments(index, piece) for piece in draw(st.lists(pieces, max_size=3)))
        events.append(CallEnds(index))
    if draw(st.booleans()):
        events = [one for event in events for one in (draw(scores), event)]
        events.append(draw(scores))
    whole: FinishReason = "tool_calls" if call_count else "stop"
    usage = draw(st.builds(Usage, *[st.integers(0, 10**6)] * 4))
    cut = draw(st.none() | st.integers(0, len(events)))
    return (
        [*events, Finish(whole, usage)] if cut is None else [*events[:cut], Finish("length", usage)]
    )


@NO_HURRY
@given(answers())
@example([CallBegins(0, "a" * 9, "look"), Finish("length", USAGE)])
@example([CALL[0], CallArguments(0, " "), Finish("length", USAGE)])
@example([*CALL, CallBegins(1, "b" * 9, "look"), Finish("length", USAGE)])
@example([Text("\u2028\u0085\u2029\n\r"), Finish("stop", USAGE)])
def test_the_stream_adds_up_to_the_plain_answer(events: list[Event]) -> None:
    plain = fold(events, **HEAD)
    assert to_json(refolded(streamed(events))) == to_json(plain)


@pytest.mark.parametrize("written", ['{"a":', '{"a": "b', "{"])
@pytest.mark.parametrize("blanks", [[" "], ["\n", " "]])
@pytest.mark.parametrize("apart", [True, False])
def test_the_white_space_at_the_end_of_a_cut_call_is_no_piece_of_its_own(
    written: str, blanks: list[str], apart: bool
) -> None:
    pieces = [written, *blanks] if apart else [written + "".join(blanks)]
    cut = [CALL[0], *(CallArguments(0, piece) for piece in pieces), Finish("length", USAGE)]
    sent = [
        delta["function"]["arguments"]
        for chunk in payloads(streamed(cut))
        for choice in chunk["choices"]
        for delta in choice["delta"].get("tool_calls", [])
    ]
    assert sent == ["", written]
    assert refolded(streamed(cut)) == fold(cut, **HEAD)


@NO_HURRY
@given(answers())
@pytest.mark.parametrize("reader", [FinalMessage, LiveCalls])
def test_both_readers_of_langchain4j_see_the_calls_of_the_plain_answer(
    reader: Callable[[], FinalMessage | LiveCalls], events: list[Event]
) -> None:
    calls: Any = fold(events, **HEAD)["choices"][0]["message"].get("tool_calls", [])
    assert calls_seen_by(reader(), streamed(events)) == [
        Call(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
    ]


@NO_HURRY
@given(answers())
def test_the_sdk_reads_every_chunk_and_the_answer(events: list[Event]) -> None:
    for chunk in payloads(streamed(events)):
        ChatCompletionChunk.model_validate(chunk, strict=True)
    ChatCompletion.model_validate(fold(events, **HEAD), strict=True)


def test_a_streamed_call_to_the_letter() -> None:
    finish = Finish("tool_calls", USAGE)
    chunks = writer()
    common = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m"'

    def chunk(delta: str, reason: str = "null") -> str:
        return (
            f'data: {{{common},"choices":[{{"index":0,"delta":{delta},'
            f'"finish_reason":{reason}}}]}}\n\n'
        )

    assert chunks.opening().decode() == chunk('{"role":"assistant"}')
    assert [chunks.write(event).decode() for event in (*CALL, finish)] == [
        "",
        chunk(
            '{"tool_calls":[{"index":0,"id":"abcDEF123","type":"function",'
            '"function":{"name":"look","arguments":""}}]}'
        )
        + chunk(r'{"tool_calls":[{"index":0,"function":{"arguments":"{\"shelf\":"}}]}'),
        chunk(r'{"tool_calls":[{"index":0,"function":{"arguments":" \"B\"}"}}]}'),
        "",
        chunk("{}", '"tool_calls"') + f'data: {{{common},"choices":[],"usage":'
        '{"prompt_tokens":30,"completion_tokens":12,"total_tokens":42,'
        '"prompt_tokens_details":{"cached_tokens":20},'
        '"completion_tokens_details":{"reasoning_tokens":5}}}\n\n',
    ]
    assert chunks.done() == b"data: [DONE]\n\n"


def test_usage_is_sent_only_if_asked_for() -> None:
    events: list[Event] = [Text("Hi."), Finish("stop", USAGE)]
    assert b"usage" not in streamed(events, include_usage=False)
    assert streamed(events).count(b'"usage":{') == 1


def test_text_before_a_call_and_reasoning_are_kept_apart() -> None:
    events = [Reasoning("Hm"), Reasoning("…"), Text("Let me "), Text("look."), *CALL]
    message: Any = fold([*events, Finish("tool_calls", USAGE)], **HEAD)["choices"][0]["message"]
    assert message["content"] == "Let me look."
    assert message["reasoning_content"] == "Hm…"
    assert message["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"shelf": "B"}'}


def test_beside_a_forced_call_content_is_null_and_absent_keys_are_left_out() -> None:
    (choice,) = fold([*CALL, Finish("tool_calls", USAGE)], **HEAD)["choices"]
    assert choice["message"]["content"] is None
    assert set(choice["message"]) == {"role", "content", "tool_calls"}
    (choice,) = fold([Text("Hi."), Finish("stop", USAGE)], **HEAD)["choices"]
    assert set(choice["message"]) == {"role", "content"}


def test_events_without_an_end_are_no_answer() -> None:
    with pytest.raises(ValueError, match="Finish"):
        fold([Text("Hi.")], **HEAD)


def test_an_error_in_a_stream_has_a_name_and_the_envelope() -> None:
    sent = writer().error(ConstraintFailed("the answer was\nwithheld"))
    name, data, *rest = sent.decode().split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: ")) == {
        "error": {
            "message": "the answer was\nwithheld",
            "type": "server_error",
            "param": None,
            "code": "constraint_failed",
        }
    }
    assert rest == ["", ""]


def test_text_is_raw_utf8_but_for_what_some_clients_take_for_line_ends() -> None:
    sent = writer().write(Text("Grüße, 東京 ✓\u2028\u0085"))
    assert "Grüße, 東京 ✓\\u2028\\u0085" in sent.decode()
    assert len(sent.decode().splitlines()) == 2


def test_half_a_surrogate_pair_does_not_end_the_stream() -> None:
    assert b'"content":"?"' in writer().write(Text("\ud83d"))


def test_a_ping_is_a_comment() -> None:
    assert PING.startswith(b":")
    assert PING.endswith(b"\n\n")


def test_log_probabilities_go_with_what_they_are_of() -> None:
    piece = "天".encode()
    scored = Logprobs(
        (
            ScoredToken(TokenLogprob(piece[:2], -0.5), (TokenLogprob(b"a", -0.25),)),
            ScoredToken(TokenLogprob(piece[2:], -1.0)),
        )
    )
    entries = [
        {
            "token": "\ufffd",
            "logprob": -0.5,
            "bytes": [229, 164],
            "top_logprobs": [{"token": "a", "logprob": -0.25, "bytes": [97]}],
        },
        {"token": "\ufffd", "logprob": -1.0, "bytes": [169], "top_logprobs": []},
    ]
    events: list[Event] = [scored, Text("天"), Text("!"), Finish("stop", USAGE)]
    shown = [choice for chunk in payloads(streamed(events)) for choice in chunk["choices"]]
    assert [choice.get("logprobs") for choice in shown] == [None, {"content": entries}, None, None]
    assert shown[1]["delta"] == {"content": "天"}
    (choice,) = fold(events, **HEAD)["choices"]
    assert choice["logprobs"]["content"] == entries


def test_log_probabilities_that_were_asked_for_are_there_if_there_are_none() -> None:
    events: list[Event] = [Finish("length", USAGE)]
    (choice,) = fold(events, **HEAD, logprobs=True)["choices"]
    assert choice["logprobs"] == {"content": []}
    (choice,) = fold(events, **HEAD)["choices"]
    assert "logprobs" not in choice


def test_a_legacy_call_to_the_letter() -> None:
    chunks = ChunkWriter(**HEAD, include_usage=False, legacy=True)
    events: tuple[Event, ...] = (*CALL, Finish("tool_calls", USAGE))
    sent = b"".join(map(chunks.write, events)) + chunks.done()
    assert [
        (c["choices"][0]["delta"], c["choices"][0]["finish_reason"]) for c in payloads(sent)
    ] == [
        ({"function_call": {"name": "look", "arguments": ""}}, None),
        ({"function_call": {"arguments": '{"shelf":'}}, None),
        ({"function_call": {"arguments": ' "B"}'}}, None),
        ({}, "function_call"),
    ]
    (choice,) = fold(events, **HEAD, legacy=True)["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "look", "arguments": '{"shelf": "B"}'},
    }


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_other_reasons_to_finish_are_the_same_for_functions(reason: FinishReason) -> None:
    (choice,) = fold([Text("Hi."), Finish(reason, USAGE)], **HEAD, legacy=True)["choices"]
    assert choice["finish_reason"] == reason


def test_usage_follows_the_last_choice_and_is_that_of_all() -> None:
    chunks = ChunkWriter(**HEAD, include_usage=True, choices=2)
    first = Finish("stop", Usage(30, 12, cached_tokens=20))
    second = Finish("length", Usage(30, 5, cached_tokens=29))
    assert chunks.opening().count(b'"role"') == 2
    assert b"usage" not in chunks.write(second, 1)
    last = chunks.write(first, 0) + chunks.done()
    *_, counts = payloads(last)
    plain = fold([first], [second], **HEAD)
    assert counts["usage"] == plain["usage"]
    assert [choice["finish_reason"] for choice in plain["choices"]] == ["stop", "length"]
    assert plain["usage"]["total_tokens"] == 30 + 17
    assert plain["usage"]["prompt_tokens_details"] == {"cached_tokens": 20}


def test_timings_of_choices_side_by_side() -> None:
    ends = [Finish("stop", USAGE, {"total_s": s, "output_tokens": n}) for s, n in ((2, 5), (3, 4))]
    reply = fold([ends[0]], [ends[1]], **HEAD)
    assert reply["timings"] == {"total_s": 3, "output_tokens": 9}
