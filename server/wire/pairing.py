"""Which result of the history answers which call, when ids are foreign, repeated or missing."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from server.errors import InvalidRequest
from server.wire.base import clipped, listed
from server.wire.messages import WireCall, WireMessage


@dataclass(frozen=True)
class Result:
    """A message with the result of a call; `index` is its place in `messages`."""

    index: int
    message: WireMessage


@dataclass(frozen=True)
class Pairs:
    """`answers` has one entry per call, None where it was never answered; `orphans` the rest."""

    answers: tuple[Result | None, ...]
    orphans: tuple[Result, ...]


def pair(calls: tuple[WireCall, ...], results: tuple[Result, ...]) -> Pairs:
    """Join results to calls by id, then by the tool's name, then by order.

    Of calls with the same id the first unanswered one is taken. By order only where nothing else
    is possible: as many results as calls are left over, or the results have no ids at all. A
    result that no call is left for is an orphan. Raises InvalidRequest for a result with a foreign
    id that could belong to several calls: a guess would show the model a wrong answer.
    """
    answers: dict[int, Result] = {}
    rest = _take(answers, calls, results, lambda call: call.id, lambda m: m.tool_call_id)
    rest = _take(answers, calls, rest, lambda call: call.name, lambda m: m.name)
    open_calls = [place for place in range(len(calls)) if place not in answers]
    if open_calls and len(open_calls) != len(rest):
        _check_unnamed(rest, calls)
    answers.update(zip(open_calls, rest, strict=False))
    return Pairs(
        answers=tuple(answers.get(place) for place in range(len(calls))),
        orphans=tuple(rest[len(open_calls) :]),
    )


def _take(
    answers: dict[int, Result],
    calls: tuple[WireCall, ...],
    results: Iterable[Result],
    key_of_call: Callable[[WireCall], str],
    key_of_result: Callable[[WireMessage], str],
) -> list[Result]:
    """Give each result the first open call with its key; return those that found none."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for place, call in enumerate(calls):
        if place not in answers:
            waiting[key_of_call(call)].append(place)
    rest = []
    for result in results:
        key = key_of_result(result.message)
        if key and waiting.get(key):
            answers[waiting[key].popleft()] = result
        else:
            rest.append(result)
    return rest


def _check_unnamed(rest: list[Result], calls: tuple[WireCall, ...]) -> None:
    known = {call.id for call in calls}
    for result in rest:
        given = result.message.tool_call_id
        if given and given not in known:
            raise InvalidRequest(
                f"messages[{result.index}] answers the call {clipped(given, 80)!r}, but the calls "
                f"before it are {listed(tuple(call.id or '(no id)' for call in calls), 400)}",
                param=f"messages[{result.index}].tool_call_id",
            )
