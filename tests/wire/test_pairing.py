import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.errors import InvalidRequest
from server.wire.messages import FunctionCall, WireCall, WireFunction, WireMessage
from server.wire.pairing import Pairs, Result, pair

IDS = st.sampled_from(["", "a", "b", "c"])
NAMES = st.sampled_from(["look", "take"])


def call(id: str, name: str = "look") -> WireCall:
    return FunctionCall(id=id, function=WireFunction(name=name))


def results(*ids_and_names: str | tuple[str, str]) -> tuple[Result, ...]:
    found = []
    for index, entry in enumerate(ids_and_names):
        given_id, name = entry if isinstance(entry, tuple) else (entry, "")
        found.append(Result(index, WireMessage(role="tool", tool_call_id=given_id, name=name)))
    return tuple(found)


def order(pairs: Pairs) -> tuple[list[int | None], list[int]]:
    """Indexes of the results by call, and of the orphans."""
    answers = [answer.index if answer else None for answer in pairs.answers]
    return answers, [orphan.index for orphan in pairs.orphans]


@pytest.mark.parametrize(
    ("calls", "found", "wanted"),
    [
        pytest.param(("a", "b"), ("b", "a"), ([1, 0], []), id="shuffled"),
        pytest.param(("x", "x"), ("x", "x"), ([0, 1], []), id="repeated ids by order"),
        pytest.param(("", ""), ("", ""), ([0, 1], []), id="empty ids by order"),
        pytest.param(("a", "b"), ("xa", "xb"), ([0, 1], []), id="foreign ids by order"),
        pytest.param(("a", "b"), ("zz", "a"), ([1, 0], []), id="one foreign id is left"),
        pytest.param(("a", "b"), ("a", "a"), ([0, 1], []), id="id used twice, one call left"),
        pytest.param(("a", "b"), ("",), ([0, None], []), id="fewer results without ids"),
        pytest.param(("a",), ("", ""), ([0], [1]), id="more results without ids"),
        pytest.param(("a",), ("a", "a"), ([0], [1]), id="answered twice"),
        pytest.param(("a", "b"), ("b",), ([None, 0], []), id="one unanswered"),
        pytest.param(("a",), (), ([None], []), id="unanswered"),
        pytest.param((), ("a", ""), ([], [0, 1]), id="orphans"),
    ],
)
def test_results_find_their_calls(
    calls: tuple[str, ...], found: tuple[str, ...], wanted: tuple[list[int | None], list[int]]
) -> None:
    assert order(pair(tuple(map(call, calls)), results(*found))) == wanted


def test_a_name_decides_where_ids_do_not() -> None:
    calls = (call("a", "look"), call("b", "take"))
    assert order(pair(calls, results(("", "take"), ("", "look")))) == ([1, 0], [])
    assert order(pair(calls, results(("foreign", "take")))) == ([None, 0], [])


@pytest.mark.parametrize("found", [("foreign",), ("x", "y", "z")])
def test_a_foreign_id_that_fits_several_calls_is_refused_by_index(found: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match=f"'{found[0]}'.*a, \\(no id\\)") as caught:
        pair((call("a"), call("")), results(*found))
    assert caught.value.param == "messages[0].tool_call_id"


@given(
    st.lists(st.builds(call, IDS, NAMES), max_size=5),
    st.lists(st.tuples(IDS, st.sampled_from(["", "look", "take"])), max_size=5),
)
def test_no_result_is_lost_or_used_twice(
    calls: list[WireCall], found: list[tuple[str, str]]
) -> None:
    given_results = results(*found)
    try:
        answers, orphans = order(pair(tuple(calls), given_results))
    except InvalidRequest:
        return
    used = [index for index in answers if index is not None] + orphans
    assert sorted(used) == list(range(len(found)))
    assert len(answers) == len(calls)
    assert not orphans or None not in answers
