"""About how long the shortest text of a Lark grammar is; `schema/shortest.py` says what for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from server.schema.shortest import MAX_ROUNDS, shortest_match

HUGE = 1e18  # at which counting stops

_PIECE = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"i?) | (?P<pattern>/(?:\\.|[^/\\])+/[imslux]*)
      | (?P<count>~\s*(\d+)(?:\s*\.\.\s*\d+)? | \{\s*(\d*)\s*(?:,\s*\d*\s*)?\})
      | (?P<alias>->\s*\w+) | (?P<range>\.\.) | (?P<name>[A-Za-z_][\w-]*) | (?P<sign>[()\[\]|*?])
    """,
    re.VERBOSE,
)


def shortest_text(expressions: dict[str, str]) -> float:
    """Of `start`, from the expressions by their names; infinite if there is none, or too entangled
    to tell.
    """
    known = dict.fromkeys(expressions, math.inf)
    for _ in range(MAX_ROUNDS):
        changed = False
        for name, expression in reversed(expressions.items()):
            try:
                length = _Reader(expression, known).alternatives()
            except RecursionError:  # the back end refuses what is nested so deeply
                return math.inf
            length = min(length, HUGE) if length < math.inf else length
            changed |= length < known[name]
            known[name] = min(known[name], length)
        if not changed:
            break
    return known.get("start", math.inf)


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, expression: str, known: Mapping[str, float]) -> None:
        self._pieces = list(_PIECE.finditer(expression))
        self._known = known
        self._at = 0

    def alternatives(self) -> float:
        ways = [0.0]
        last = 0.0  # what a quantifier would repeat
        while self._at < len(self._pieces):
            piece = self._pieces[self._at]
            self._at += 1
            if piece[0] in (")", "]"):
                break
            if piece[0] == "|":
                ways.append(0)
            elif piece[0] in ("*", "?"):
                ways[-1] = _less(ways[-1], last)
            elif piece["count"]:
                times = int(piece[4] or piece[5] or 0)
                ways[-1] = _less(ways[-1], last) + (times * last if times else 0)
            elif piece.lastgroup != "alias":
                last = self._part(piece)
                ways[-1] += last
        return min(ways)

    def _part(self, piece: re.Match[str]) -> float:
        if piece[0] in ("(", "["):
            inner = self.alternatives()
            return inner if piece[0] == "(" else 0
        if piece["name"]:
            return self._known.get(piece[0], 0)
        if piece["pattern"]:
            return shortest_match(piece[0].rpartition("/")[0][1:])
        return 0 if piece["range"] else len(piece[0]) - 2


def _less(whole: float, part: float) -> float:
    """A sum without its last part; without an infinite one, what is left is not known."""
    return whole - part if part < math.inf else 0
