"""Call ids in the history, in the shape that a family insists on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from prompts.conversation import Message, PastCall
from prompts.formats import Ids

_ALNUM9 = re.compile("[A-Za-z0-9]{9}")


def with_ids(messages: Sequence[Message], ids: Ids) -> list[Message]:
    """Every call has an id of the wanted shape, and its results have the same one.

    A result belongs to the latest call before it with its id; an id that comes again gets a new
    name, since some templates look results up by it. The same conversation always gives the same
    ids.
    """
    renamed: dict[str, str] = {}
    taken: set[str] = set()
    count = 0
    shaped: list[Message] = []
    for message in messages:
        calls: list[PastCall] = []
        for call in message.calls:
            new = call_id(ids, call.id, call.name, count)
            if new in taken:
                new = _hashed(new, count)
            taken.add(new)
            renamed[call.id] = new
            calls.append(replace(call, id=new))
            count += 1
        answered = message.call_id
        if message.role == "tool":
            answered = renamed.get(answered) or call_id(ids, answered, message.name, count)
        shaped.append(replace(message, calls=tuple(calls), call_id=answered))
    return shaped


def call_id(ids: Ids, given: str, name: str, count: int) -> str:
    """`given` in the wanted shape; `count` calls came before this one."""
    if ids == "kimi":
        return f"functions.{name}:{count}"
    if ids == "alnum9" and not _ALNUM9.fullmatch(given):
        return _hashed(given, 0 if given else count)
    return given or f"call_{count}"


def _hashed(given: str, count: int) -> str:
    return hashlib.sha256(f"{given}/{count}".encode()).hexdigest()[:9]
