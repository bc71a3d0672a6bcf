from dataclasses import replace
from typing import Any

import pytest

from server.config import Settings
from server.errors import InvalidRequest
from server.wire.chat import ChatRequest, parse_chat_request
from tests.wire.builders import LIMITS, USER, ask, encoded, refused, tool


def test_the_settings_are_limits() -> None:
    assert parse_chat_request(encoded(), Settings()).model == "m"


def test_null_is_the_same_as_absent_for_every_field() -> None:
    optional = ChatRequest.model_fields.keys() - {"model", "messages"}
    assert ask(**dict.fromkeys(optional)) == ask()


def test_what_is_honoured_is_read() -> None:
    given = {
        "stream": True,
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 40,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
        "frequency_penalty": -2,
        "presence_penalty": 2,
        "seed": -(2**63),
        "reasoning_effort": "high",
        "verbosity": "low",
        "n": 3,
        "logprobs": True,
        "top_logprobs": 20,
        "chat_template_kwargs": {"enable_thinking": False},
        "prompt_template": "table_zh",
        "tool_call_bias": -2.5,
        "fit_question": True,
        "parallel_tool_calls": False,
    }
    request = ask(**given)
    assert {name: getattr(request, name) for name in given} == given


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", ["warm", -0.1, 2.1, True, [1]]),
        ("top_p", [-0.1, 1.1, "1"]),
        ("top_k", [-2, 1.5, True]),
        ("min_p", [-0.1, 1.1]),
        ("repeat_penalty", [0, 2.1]),
        ("repetition_penalty", [0, 2.1, "1"]),
        ("n", [0, 9, -1, 1.0, True, "2"]),
        ("logprobs", [0, 5, "true"]),
        ("top_logprobs", [-1, 21, 2.0, True]),
        ("verbosity", ["loud", 1]),
        ("frequency_penalty", [-2.1, 2.1]),
        ("presence_penalty", [-2.1, 2.1]),
        ("seed", [1.5, "1", 2**63, -(2**63) - 1, 10**400]),
        ("max_tokens", [0, -1, 1.5, "9", True]),
        ("max_completion_tokens", [0, -1]),
        ("stream", ["true", 1]),
        ("parallel_tool_calls", ["no", 0]),
        ("stream_options", [5, []]),
        ("stop", [5, {"a": 1}, ["x"] * 17]),
        ("logit_bias", [5, {"word": 1}, {"-1": 1}, {"5": 101}, {"5": "x"}, {"5": True}]),
        ("reasoning_effort", ["maximal", 3]),
        ("tool_call_bias", [-100.5, 101, True, "1", [1]]),
        ("fit_question", ["yes", 1, [True]]),
        ("prompt_template", ["../etc/passwd", "/x", "", "a\n", 5]),
        ("chat_template_kwargs", [5, {"messages": []}, {"self": 1}, {"a b": 1}]),
        ("model", ["", 5, None]),
        ("messages", [[], {}, "x", None]),
    ],
)
def test_a_wrong_value_is_refused_with_the_fields_name(field: str, values: list[Any]) -> None:
    for value in values:
        error = refused(**{field: value})
        assert error.param == field, value
        assert error.message.startswith(f"{field}: ")
        assert error.status == 400


def test_messages_are_short_and_in_plain_words() -> None:
    error = refused(stop=5)
    assert error.message == "stop: input should be a valid list"
    assert len(refused(temperature="x" * 90_000).message) < 200
    assert len(refused(logit_bias={"x" * 90_000: 1}).message) < 200
    assert len(refused(tools=[tool("x" * 90_000)]).message) < 400
    assert len(refused(messages=[{"role": "x" * 90_000}]).message) < 200
    assert (
        len(refused(messages=[{"role": "user", "content": [{"type": "x" * 90_000}]}]).message) < 200
    )


def test_stop_is_one_text_or_several() -> None:
    assert ask(stop="}").stop == ("}",)
    assert ask(stop=["a", "b"]).stop == ("a", "b")
    assert ask(stop=[]).stop == ()
    assert refused(stop=["a", ""]).param == "stop[1]"


def test_both_names_of_the_repetition_penalty_may_be_sent_if_they_agree() -> None:
    assert ask(repetition_penalty=1.1).repetition_penalty == 1.1
    assert ask(repetition_penalty=1.1, repeat_penalty=1.1).repeat_penalty == 1.1
    assert refused(repetition_penalty=1.1, repeat_penalty=1.2).param == "repetition_penalty"


def test_top_logprobs_need_logprobs() -> None:
    assert ask(top_logprobs=0).top_logprobs == 0
    for logprobs in (None, False):
        assert refused(top_logprobs=2, logprobs=logprobs).param == "top_logprobs"


def test_biases_are_by_token_id() -> None:
    assert ask(logit_bias={"50256": -100, "7": 0.5}).logit_bias == {50256: -100.0, 7: 0.5}
    assert refused(logit_bias={str(n): 1 for n in range(2000)}).param == "logit_bias"


@pytest.mark.parametrize("off", [0, -1])
def test_top_k_is_off_in_both_spellings(off: int) -> None:
    assert ask(top_k=off).top_k == 0


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 5),
        ({"max_tokens": 8, "max_completion_tokens": 6}, 6),
    ],
)
def test_the_lower_token_limit_holds(fields: dict[str, int], limit: int | None) -> None:
    assert ask(**fields).token_limit == limit


def test_usage_in_a_stream_is_asked_for() -> None:
    assert not ask(
        stream=True, stream_options={"include_obfuscation": True}
    ).stream_options.include_usage
    assert ask(stream=True, stream_options={"include_usage": True}).stream_options.include_usage
    with_counts = {"include_usage": True, "continuous_usage_stats": True}
    assert refused(stream=True, stream_options=with_counts).param == (
        "stream_options.continuous_usage_stats"
    )


@pytest.mark.parametrize(("name", "entry"), [("messages", USER), ("tools", tool("x"))])
def test_how_many_entries_there_may_be_is_a_setting(name: str, entry: Any) -> None:
    limits = replace(LIMITS, max_messages=3, max_tools=3)
    with pytest.raises(InvalidRequest, match=r"4 entries, at most 3") as caught:
        parse_chat_request(encoded(**{name: [entry] * 4}), limits)
    assert caught.value.param == name


def test_a_depth_beyond_what_python_can_walk_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(450):
        schema = {"items": schema}
    with pytest.raises(InvalidRequest, match="nested"):
        parse_chat_request(
            encoded(tools=[tool("deep", parameters=schema)]), replace(LIMITS, max_depth=10_000)
        )


def test_the_request_has_a_json_schema_for_the_documentation() -> None:
    names = {info.alias or name for name, info in ChatRequest.model_fields.items()}
    assert set(ChatRequest.model_json_schema()["properties"]) == names
