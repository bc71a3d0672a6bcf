"""Whether calls of a user's own cases are right: values are compared as JSON, whatever the schema.

An integer equals a number of the same value, a boolean never equals a number, lists are in order.
Of texts, case and how much white space there is do not matter, unless they are `Exact`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from prompts.bench.cases import Exact


def value_fault(
    value: Any, accepted: Sequence[Any]
) -> Literal["wrong_type", "wrong_value"] | None:  # fmt: skip
    """None if the value is one of the accepted ones, which are as `ExpectedCall` has them."""
    wanted = [one for one in accepted if one != ""]
    if any(_matches(value, one) for one in wanted):
        return None
    kinds = {_kind(one.exact if isinstance(one, Exact) else one) for one in wanted}
    return "wrong_value" if _kind(value) in kinds else "wrong_type"


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Exact):
        return _equals(value, wanted.exact)
    if _kind(value) is not _kind(wanted):
        return False
    if isinstance(wanted, str):
        return folded(value) == folded(wanted)
    if isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_matches, value, wanted))
    if isinstance(wanted, dict):
        return (
            set(value) <= set(wanted)
            and all(key in value or "" in accepted for key, accepted in wanted.items())
            and all(value_fault(inner, wanted[key]) is None for key, inner in value.items())
        )
    return bool(value == wanted)


def _equals(value: Any, wanted: Any) -> bool:
    """Equal as JSON is: not as Python has it, where True is 1."""
    if _kind(value) is not _kind(wanted):
        return False
    if isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_equals, value, wanted))
    if isinstance(wanted, dict):
        return set(value) == set(wanted) and all(_equals(value[key], wanted[key]) for key in wanted)
    return bool(value == wanted)


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def folded(text: str) -> str:
    """A text without case, outer white space and runs of it."""
    return " ".join(text.split()).casefold()


def match(fits: Sequence[Sequence[bool]]) -> dict[int, int]:
    """As many pairs of a row and a column that fit as there can be; each is in one pair at most."""
    row_of: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for column, fit in enumerate(fits[row]):
            if fit and column not in tried:
                tried.add(column)
                if column not in row_of or place(row_of[column], tried):
                    row_of[column] = row
                    return True
        return False

    for row in range(len(fits)):
        place(row, set())
    return {row: column for column, row in row_of.items()}
