from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from server.bench.phrases import MOST_TOOLS
from server.bench.workloads import ARRIVALS, WARM_UP, WORKLOADS, Closed, Level, Open, Series
from server.config import load
from server.wire.chat import parse_chat_request
from tests.bench.helpers import arguments_for, level

NAMES = st.sampled_from(sorted(WORKLOADS))
LOADS = st.one_of(st.integers(1, 8).map(Closed), st.floats(0.01, 100, allow_nan=False).map(Open))
SERIES = Series(seed=1, salt="abc")


@given(NAMES, LOADS, st.integers(0, 50), st.integers(0, 20))
def test_a_seed_always_gives_the_same(
    name: str, load: Closed | Open, seed: int, round: int
) -> None:
    one = Level(WORKLOADS[name], load)
    series = Series(seed, "abc")
    dialogues = series.dialogues(one, round)
    assert dialogues == Series(seed, "abc").dialogues(one, round)
    assert len(dialogues) == one.dialogues
    for dialogue in dialogues:
        assert len(dialogue.turns) == one.workload.turns
        assert len({tool.name for tool in dialogue.tools}) == one.workload.tool_count
    arrivals = series.arrivals(one, round)
    assert arrivals == sorted(arrivals)
    assert len(arrivals) == len(dialogues)


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_is_shared_and_what_is_not(name: str) -> None:
    rounds = [SERIES.dialogues(level(name, clients), round)
              for clients in (1, 4) for round in range(WARM_UP, 5)]  # fmt: skip
    dialogues = [dialogue for round in rounds for dialogue in round]
    questions = {dialogue.turns for dialogue in dialogues}
    lists = [tuple(tool.name for tool in dialogue.tools) for dialogue in dialogues]
    fronts = {(dialogue.system, tools) for dialogue, tools in zip(dialogues, lists, strict=True)}
    assert len(questions) == len(dialogues)
    assert len(fronts) == (len(dialogues) if name == "cold" else 1)
    if name == "cold":
        assert len(set(lists)) > 0.9 * len(lists)


def test_another_salt_makes_every_prompt_new() -> None:
    for name in WORKLOADS:
        [mine, *_] = SERIES.dialogues(level(name), 0)
        [other, *_] = replace(SERIES, salt="xyz").dialogues(level(name), 0)
        assert mine.system != other.system
        assert mine.tools == other.tools
        assert mine.turns == other.turns
        assert mine.system[:10] != other.system[:10]


def test_the_warm_up_has_one_turn_for_each_client() -> None:
    dialogues = SERIES.dialogues(level("agent", 4), WARM_UP)
    assert [len(dialogue.turns) for dialogue in dialogues] == [1] * 4
    assert SERIES.arrivals(level("agent", 4), WARM_UP) == [0.0] * 4
    opened = Level(WORKLOADS["agent"], Open(2.0))
    assert len(SERIES.dialogues(opened, WARM_UP)) == 1


def test_results_ask_for_another_call() -> None:
    [dialogue, *_] = SERIES.dialogues(level("agent"), 0)
    question, *results = dialogue.turns
    assert question.startswith("Case ")
    for result in results:
        data = json.loads(result)
        assert data["status"] == "done"
        action, _, rest = data["next"].partition(" the ")
        thing = rest.partition(":")[0].replace(" ", "_")
        assert f"{action}_{thing}" in {tool.name for tool in dialogue.tools}


def test_our_server_takes_the_tools_and_their_schemas_can_be_satisfied() -> None:
    every = replace(WORKLOADS["warm40"], tool_count=MOST_TOOLS)
    [dialogue, *_] = SERIES.dialogues(Level(every, Closed(1)), 0)
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": dialogue.turns[0]}],
        "tools": [tool.as_wire() for tool in dialogue.tools],
    }
    request = parse_chat_request(json.dumps(body).encode(), load())
    assert len(request.tools) == MOST_TOOLS == 72
    for tool in dialogue.tools:
        Draft202012Validator.check_schema(tool.closed_parameters)
        checker = Draft202012Validator(tool.closed_parameters)
        arguments = arguments_for(tool.parameters)
        assert checker.is_valid(arguments)
        assert not checker.is_valid({**arguments, "more": 1})


@given(st.integers(1, 200), st.integers(1, 200), NAMES, st.integers(1, 8))
def test_rounds_are_as_few_as_give_enough(
    least_rounds: int, least_answers: int, name: str, clients: int
) -> None:
    one = level(name, clients)
    rounds = one.rounds(least_rounds, least_answers)
    assert rounds >= least_rounds
    assert rounds * one.answers >= least_answers
    assert rounds == least_rounds or (rounds - 1) * one.answers < least_answers


def test_how_much_a_level_is() -> None:
    assert (level("agent", 4).dialogues, level("agent", 4).answers) == (4, 16)
    assert (level("warm5", 8).dialogues, level("warm5", 8).answers) == (32, 32)
    opened = Level(WORKLOADS["agent"], Open(0.5))
    assert (opened.clients, opened.dialogues, opened.is_open) == (1, ARRIVALS, True)
    assert [str(one) for one in (Closed(1), Closed(4), Open(0.5))] == [
        "1 client", "4 clients", "0.5/s",
    ]  # fmt: skip


def test_arrivals_come_at_the_rate() -> None:
    opened = Level(WORKLOADS["warm5"], Open(4.0))
    gaps = [
        later - earlier
        for round in range(200)
        for times in [SERIES.arrivals(opened, round)]
        for earlier, later in pairwise(times)
    ]
    assert sum(gaps) / len(gaps) == pytest.approx(1 / 4, rel=0.1)
