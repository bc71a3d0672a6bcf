"""The members of an object in a notation, in the order of the schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from server.payloads.rules import Rules, pattern
from server.payloads.shapes import Members, Shapes, Tangled, members
from server.payloads.texts import whole

KEY = r"[A-Za-z0-9_.-]{1,64}"
"""Names of members that no schema lists."""
MAX_OTHERS = 32


@dataclass(frozen=True)
class Unlisted:
    """A name that no schema lists; `rule` is a terminal for it."""

    rule: str


WriteMember = Callable[[str | Unlisted, Any], str | None]
"""One member, key and value; None if there is no such value."""
Order = Callable[[str], str]


def object_rule(
    rules: Rules,
    shapes: Shapes,
    schema: Any,
    write: WriteMember,
    *,
    separator: str = "",
    order: Order | None = None,
) -> str | None:
    """The rule for the members of an object, without what stands around them.

    `separator` is Lark text. None if no object satisfies the schema.
    """
    try:
        ways = [made for way in shapes.ways(schema) if (made := members(way))]
    except Tangled:
        ways = [Members({}, frozenset(), True, (), exact=False)]
    bodies = []
    for made in ways:
        parts = _parts(rules, made, write, separator, order)
        if parts is not None:
            rules.inexact |= not made.exact
            bodies.append(_joined(rules, parts, separator))
    return rules.new(" | ".join(dict.fromkeys(bodies))) if bodies else None


Part = tuple[str, bool]
"""A rule, and whether it must be there."""


def _parts(
    rules: Rules, made: Members, write: WriteMember, separator: str, order: Order | None
) -> list[Part] | None:
    parts: list[Part] = []
    for name in sorted(made.listed, key=order) if order else made.listed:
        member = write(name, made.listed[name])
        if member is not None:
            parts.append((rules.new(member), name in made.required))
        elif name in made.required:
            return None
    if made.others is not False and (other := write(_unlisted(rules, made), made.others)):
        rules.inexact = True  # nothing keeps their names apart
        one = rules.new(other)
        parts.append((rules.new(f"{one} ({separator} {one}){{0,{MAX_OTHERS - 1}}}"), False))
    return parts


def _unlisted(rules: Rules, made: Members) -> Unlisted:
    wanted = [whole(each) for each in made.name_patterns]
    terminal = pattern(KEY)
    if wanted and None not in wanted:
        terminal += " & " + pattern("|".join(f"(?:{each})" for each in wanted))
    return Unlisted(rules.new(terminal, terminal=True))


def _joined(rules: Rules, parts: list[Part], separator: str) -> str:
    if not separator:
        return " ".join(rule if needed else f"{rule}?" for rule, needed in parts) or '""'
    begins: list[str] = []
    following = ""  # what comes after a member, each part with its separator
    for rule, needed in reversed(parts):
        begin = f"{rule} {following}"
        begins = [begin] if needed else [begin, *begins]
        more = f"({separator} {rule})" + ("" if needed else "?")
        following = rules.new(f"{more} {following}")
    if any(needed for _, needed in parts):
        return " | ".join(begins)
    return f"({' | '.join(begins)})?" if begins else '""'
