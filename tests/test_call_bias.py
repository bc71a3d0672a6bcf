"""When calls are favoured against text, or text against calls, where an answer may be either."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from prompts.formats import GENERIC, HERMES, ToolFormat
from prompts.own_formats import CALL_LIST
from server.call_bias import CallBias
from server.constraint import Constraint, ConstraintCompiler
from server.engine.sampler import Logits
from server.plan import Callee, Mode, Plan
from tests.driving import any_token, drive, fold, merged_vocabulary
from tests.fakes import TOOL_CALL
from tests.replies import answer_to, calls_of, content_of, reason_of
from tests.serving import CHAT, CITY, ask, call, rig, started, tool

VOCABULARY = merged_vocabulary()
IDS = {piece: token for token, piece in enumerate(VOCABULARY.pieces)}
OPENERS = np.array([3, 5])
FENCE = "```json\n"
NAMED = '{"name": "get_weather", "arguments": {"city": "Porto"}}'
WEATHER = call("get_weather", '{"city": "Porto"}')
TOOLS = [tool("get_weather"), tool("get_time")]
WRITTEN = [WEATHER, NAMED, f"{FENCE}{NAMED}\n```", f"```\n{NAMED}\n```", f"\n\n{NAMED}"]
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


@cache
def constraint(row: ToolFormat = HERMES, mode: Mode = "auto") -> Constraint:
    compiler = ConstraintCompiler(VOCABULARY, can_retry=True)
    return compiler.compile_now(Plan(row, mode, (Callee("get_weather", CITY, "tools[0]"),)))


def logits_of(values: dict[int, float], size: int = 8) -> Logits:
    logits = np.zeros(size, np.float32)
    for token, value in values.items():
        logits[token] = value
    logits.flags.writeable = False
    return logits


# The bias itself


@given(st.lists(st.floats(-30, 30, width=32), min_size=8, max_size=8), st.floats(-50, 50))
@hypothesis_settings(deadline=None)
def test_openers_are_shifted_and_the_margin_says_where_the_choice_turns(
    values: list[float], by: float
) -> None:
    logits = np.array(values, np.float32)
    bias = CallBias(OPENERS, by)
    weighed = bias.weigh(logits)
    shift = np.zeros(8, np.float32)
    shift[OPENERS] = by
    assert np.array_equal(weighed, logits + shift)
    assert np.array_equal(logits, np.array(values, np.float32))
    leaning = bias.leaning
    assert leaning
    shares = np.exp(np.float64(logits) - np.logaddexp.reduce(np.float64(logits)))
    assert leaning.call_logprob == pytest.approx(np.log(shares[OPENERS].sum()), abs=1e-4)
    if abs(by + leaning.call_margin) > 1e-3:
        assert (weighed.argmax() in OPENERS) == (by > -leaning.call_margin)


def test_white_space_does_not_begin_an_answer_and_then_nothing_is_weighed() -> None:
    bias, logits = CallBias(OPENERS, -9), logits_of({3: 5})
    bias.accept(0, b" \n")
    assert bias.weigh(logits)[3] == -4
    bias.accept(1, b"Well")
    assert bias.weigh(logits) is logits


@pytest.mark.parametrize(
    ("by", "wanted", "chosen", "prevented"),
    [(-9, 3, 1, True), (-9, 3, 5, False), (-9, 1, 1, False), (9, 3, 1, False), (0, 3, 1, False)],
)
def test_a_call_is_prevented_if_it_was_the_favourite_and_the_bias_is_against_it(
    by: float, wanted: int, chosen: int, prevented: bool
) -> None:
    bias = CallBias(OPENERS, by)
    bias.weigh(logits_of({wanted: 5}))
    bias.accept(chosen, b"x")
    assert bias.prevented is prevented


# Which tokens open a call


def test_openers_are_what_may_begin_a_call_also_after_white_space() -> None:
    shifted = CallBias(OPENERS, 1), constraint().bias(1)
    tokens = set(np.flatnonzero(shifted[1].weigh(np.zeros(len(VOCABULARY), np.float32))).tolist())
    opening = [b"{", b'{"', b' {"', b'{"name', b'{"name": "', b"`", b"```", b"```json\n", b"<tool"]
    assert {IDS[piece] for piece in opening} | {TOOL_CALL} <= tokens
    assert not tokens & {IDS[piece] for piece in (b"name", b" ", b"\n", b" the", b"1", b"e", b"[")}
    assert not tokens & VOCABULARY.end


@hypothesis_settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([HERMES, GENERIC, CALL_LIST]))
def test_every_call_begins_with_an_opener(seed: int, row: ToolFormat) -> None:
    choose = any_token(Random(seed), VOCABULARY, 0)
    driven = drive(constraint(row, "required"), VOCABULARY, choose, max_tokens=1)
    bias = constraint(row).bias(1)
    assert bias.weigh(np.zeros(len(VOCABULARY), np.float32))[driven.tokens[0]] == 1


@pytest.mark.parametrize("mode", ["none", "required"])
def test_where_it_is_decided_nothing_opens(mode: Mode) -> None:
    assert constraint().chooses
    assert not constraint(mode=mode).chooses


# After a call was prevented


@hypothesis_settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([HERMES, GENERIC, CALL_LIST]))
def test_then_no_text_is_a_call_and_the_grammar_is_never_stuck(seed: int, row: ToolFormat) -> None:
    random = Random(seed)
    guide = constraint(row).guide(bias=(bias := constraint(row).bias(-20)))
    opener = IDS[b"[" if row is CALL_LIST else b"{"]
    guide.weigh(logits_of({opener: 5}, len(VOCABULARY)))
    guide.accept(IDS[b"e"])
    assert bias.prevented
    text = b"e"
    for piece in [b"\n", b"```json\n", b"{", *[b'{"name": "'] * 3, b"get_weather", b'"']:
        for token in VOCABULARY.encode_text(piece) if random.random() < 0.9 else [TOOL_CALL]:
            if not guide.allows(token):
                mask = guide.mask()
                assert not mask[token]
                token = int(random.choice(np.flatnonzero(mask).tolist()))
                while not guide.allows(token):
                    token = int(random.choice(np.flatnonzero(guide.mask()).tolist()))
            if token not in VOCABULARY.end:
                guide.accept(token)
                text += VOCABULARY.pieces[token]
    assert guide.free
    parser = constraint(row).parser(new_id=str, stops=())
    told = fold([*parser.feed(text + NAMED.encode()[21:]), *parser.end()])
    assert told.calls == ()


# Over the interface


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("said", WRITTEN)
async def test_a_bias_against_calls_gives_text_in_their_place(said: str, stream: bool) -> None:
    body = ask("weather", tools=TOOLS, max_tokens=120)
    assert calls_of(await answer_to({"weather": said}, body, stream=stream))
    reply = await answer_to({"weather": said}, {**body, "tool_call_bias": -60}, stream=stream)
    assert calls_of(reply) == []
    assert content_of(reply)
    assert "<tool_call>" not in (content_of(reply) or "")
    assert reason_of(reply) != "tool_calls"


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("said", WRITTEN)
async def test_a_text_that_the_model_wants_to_begin_with_may_go_on_with_a_call(
    said: str, stream: bool
) -> None:
    body = ask("weather", tools=TOOLS, tool_call_bias=-60)
    reply = await answer_to({"weather": f"Let me look.\n{said}"}, body, stream=stream)
    assert calls_of(reply) == [("get_weather", {"city": "Porto"})]
    assert content_of(reply) == "Let me look."


@PLAIN_AND_STREAMED
async def test_a_bias_for_calls_makes_one_where_the_model_wants_text(stream: bool) -> None:
    body = ask("hello", tools=TOOLS, max_tokens=400)
    says = {"hello": "Hello, dear friend. " * 9}
    assert calls_of(await answer_to(says, body, stream=stream)) == []
    reply = await answer_to(says, {**body, "tool_call_bias": 60, "seed": 3}, stream=stream)
    assert (content_of(reply) or "")[:1] in ("", "{", "`", "<")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": TOOLS[0]}])
async def test_a_call_that_must_be_made_is_made(choice: Any) -> None:
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": "get_weather"}}
    body = ask("weather", tools=TOOLS, tool_choice=choice, tool_call_bias=-100)
    assert calls_of(await answer_to({"weather": WEATHER}, body))


async def test_an_answer_that_is_gone_on_with_has_begun() -> None:
    messages = [{"role": "user", "content": "weather"}, {"role": "assistant", "content": "Well.\n"}]
    body = ask("", tools=TOOLS, tool_call_bias=-60, continue_final_message=True) | {
        "messages": messages,
        "add_generation_prompt": False,
    }
    assert calls_of(await answer_to({"weather": "Well.\n" + WEATHER}, body))


@pytest.mark.parametrize(
    ("catalog", "setting", "fields", "called"),
    [
        ({}, None, {}, True),
        ({"native": -60.0}, None, {}, False),
        ({"native": -60.0}, None, {"prompt_template": "chatml"}, True),
        ({"chatml": -60.0}, None, {"prompt_template": "chatml"}, False),
        ({"native": -60.0}, 0.0, {}, True),
        ({"native": 9.0}, -60.0, {}, False),
        ({"native": -60.0}, None, {"tool_call_bias": 0}, True),
        ({}, -60.0, {"tool_call_bias": 0.5}, True),
    ],
)
async def test_the_request_counts_then_the_setting_then_the_catalog(
    catalog: dict[str, float], setting: float | None, fields: dict[str, Any], called: bool
) -> None:
    made = rig({"weather": WEATHER}, call_biases=catalog, tool_call_bias=setting)
    async with started(made) as client:
        answer = await client.post(CHAT, json=ask("weather", tools=TOOLS, max_tokens=99, **fields))
    assert bool(calls_of(answer.json())) is called


async def test_timings_tell_what_the_model_leaned_to_and_the_bias() -> None:
    body = ask("weather", tools=TOOLS, include_timings=True, max_tokens=1)
    made = rig({"weather": WEATHER, "hello": "Hello"})
    changes: list[dict[str, Any]] = [
        {},
        {"tool_call_bias": -60},
        {"messages": [{"role": "user", "content": "hello"}]},
        {"tool_choice": "required"},
        {"tools": []},
    ]
    async with started(made) as client:
        answers = [await client.post(CHAT, json={**body, **fields}) for fields in changes]
    told = [answer.json()["timings"] for answer in answers]
    keys = {"call_logprob", "call_margin", "tool_call_bias"}
    wants, biased, talks, *decided = told
    assert wants["call_logprob"] == biased["call_logprob"] > -0.2 > talks["call_logprob"]
    assert wants["call_margin"] == biased["call_margin"] > 0 > talks["call_margin"]
    assert (wants["tool_call_bias"], biased["tool_call_bias"]) == (0, -60)
    assert not [one for one in decided if keys & set(one)]


@pytest.mark.parametrize("by", [-100.5, 101, "1", True, [1], "NaN", "Infinity"])
async def test_a_bias_out_of_bounds_is_refused_by_name(by: Any) -> None:
    body = ask("weather", tools=TOOLS, tool_call_bias=by)
    async with started(rig({})) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tool_call_bias"


async def test_a_bias_beside_a_form_of_the_answer_is_refused_by_name() -> None:
    form = {"type": "json_object"}
    body = ask("weather", tools=TOOLS, response_format=form, tool_call_bias=-1)
    made = rig({"weather": WEATHER}, tool_call_bias=-60)  # the setting is for where it can be
    async with started(made) as client:
        answer = await client.post(CHAT, json=body)
        other = await client.post(CHAT, json={**body, "tool_call_bias": 0, "max_tokens": 9})
    assert answer.json()["error"]["param"] == "tool_call_bias"
    assert other.status_code == 200
