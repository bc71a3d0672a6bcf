"""Whether calls are right: for data sets after the rules of BFCL's AST checker, which follow.

Names must be equal. Required parameters must be there, others only with a value that is accepted.
Types are exact, but an integer is taken for a float. Texts are compared without case, spaces and
some punctuation. Where the checker is lenient or odd, so is this: numbers are meant to be
comparable with the leaderboard. `tests/prompts/bench/agreement.py` holds one against the other.

Own cases have plainer rules: values are compared as `exact.py` says, and calls in any order are
right if they can be paired off with the expected ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prompts.bench.cases import Call, Case, ExpectedCall, JsonObject, Language
from prompts.bench.exact import match, value_fault
from prompts.bench.literals import java_value, javascript_value

FaultKind = Literal[
    "unwanted_call", "no_call", "wrong_count", "wrong_name", "missing_required",
    "unexpected_parameter", "wrong_type", "wrong_value", "missing_optional", "no_match",
]  # fmt: skip

_PYTHON: Mapping[str, type] = {
    "any": str, "array": list, "boolean": bool, "bool": bool, "dict": dict, "float": float,
    "integer": int, "list": list, "number": float, "object": dict, "string": str, "tuple": list,
}  # fmt: skip
_JAVA: Mapping[str, type] = {
    "any": str, "Array": list, "ArrayList": list, "boolean": bool, "byte": int, "char": str,
    "double": float, "float": float, "HashMap": dict, "integer": int, "long": int, "short": int,
    "String": str,
}  # fmt: skip
_JAVASCRIPT: Mapping[str, type] = {
    "any": str, "array": list, "Bigint": int, "Boolean": bool, "dict": dict, "float": float,
    "integer": int, "String": str,
}  # fmt: skip
_WORDS: Mapping[Language, Mapping[str, type]] = {
    "python": _PYTHON, "java": _JAVA, "javascript": _JAVASCRIPT,
}  # fmt: skip
_COLLECTIONS = ("array", "list", "tuple", "Array", "ArrayList")
_IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True)
class Fault:
    """Why calls are not right; `parameter` where it is one's fault."""

    kind: FaultKind
    text: str
    parameter: str | None = None


def check(case: Case, calls: Sequence[Call]) -> Fault | None:
    """None if the calls are right."""
    if case.need == "none":
        return Fault("unwanted_call", "no tool fits, but one was called") if calls else None
    if not calls:
        return Fault("no_call", "no tool was called")
    if case.need == "some":
        return None
    if len(calls) != len(case.expected):
        return Fault("wrong_count", f"{len(calls)} calls, expected {len(case.expected)}")
    if not case.in_any_order:
        pairs = zip(case.expected, calls, strict=True)
        return next((fault for one in pairs if (fault := check_call(case, *one))), None)
    if case.rules == "own":
        return _check_pairs(case, calls)
    return _check_unordered(case, list(calls))


def _check_pairs(case: Case, calls: Sequence[Call]) -> Fault | None:
    faults = [[check_call(case, one, call) for call in calls] for one in case.expected]
    pairs = match([[fault is None for fault in row] for row in faults])
    unmet = [at for at in range(len(faults)) if at not in pairs]
    if not unmet:
        return None
    if len(unmet) == 1:
        [left] = set(range(len(calls))) - set(pairs.values())
        return faults[unmet[0]][left]
    name = case.expected[unmet[0]].name
    return Fault("no_match", f"none of the calls is the expected one of {name}")


def _check_unordered(case: Case, left: list[Call]) -> Fault | None:
    for expected in case.expected:
        faults = [check_call(case, expected, call) for call in left]
        if None not in faults:
            if len(faults) == 1:
                return faults[0]
            return Fault("no_match", f"none of the calls is the expected one of {expected.name}")
        del left[faults.index(None)]
    return None


def check_call(case: Case, expected: ExpectedCall, call: Call) -> Fault | None:
    """One call against one expected call."""
    if call.name != expected.name:
        return Fault("wrong_name", f"called {call.name}, expected {expected.name}")
    types = case.types[expected.name]
    for name in types.get("required", ()):
        if name not in call.arguments:
            return Fault("missing_required", f"{name} is required", name)
    for name, value in call.arguments.items():
        if (fault := _check_argument(case, expected, name, value)) is not None:
            return fault
    for name, accepted in expected.accepted.items():
        if name not in call.arguments and "" not in accepted:
            return Fault("missing_optional", f"{name} was to be given", name)
    return None


def _check_argument(case: Case, expected: ExpectedCall, name: str, value: Any) -> Fault | None:
    described = case.types[expected.name].get("properties", {})
    accepted = expected.accepted.get(name)
    if accepted is None or (case.rules == "bfcl" and name not in described):
        return Fault("unexpected_parameter", f"{name} was not to be given", name)
    if case.rules == "own":
        kind = value_fault(value, accepted)
    else:
        kind = check_value(described[name], value, accepted, case.language)
    if kind is None:
        return None
    return Fault(kind, f"{name} is {value!r}, accepted: {list(accepted)!r}", name)


def check_value(
    described: JsonObject, value: Any, accepted: Sequence[Any], language: Language
) -> Literal["wrong_type", "wrong_value"] | None:
    """None if the value is among the accepted ones; `described` has the parameter's type."""
    word = described.get("type")
    words = _WORDS[language]
    if not isinstance(word, str) or word not in words:
        return None if value in accepted else "wrong_value"
    items = described.get("items")
    item_word = items.get("type") if isinstance(items, dict) and word in _COLLECTIONS else None
    wanted, item = words[word], words.get(item_word) if isinstance(item_word, str) else None
    if language != "python":
        if type(value) is not str:
            return "wrong_type"
        read = java_value if language == "java" else javascript_value
        value = read(value, word, item_word)
    elif wanted is float and type(value) is int:
        value = float(value)
    fits, is_variable = _fits(value, wanted, item, accepted)
    if not fits:
        return "wrong_type"
    same = value in accepted if is_variable else _is_accepted(value, wanted, item, accepted)
    return None if same else "wrong_value"


def _fits(
    value: Any, wanted: type, item: type | None, accepted: Sequence[Any]
) -> tuple[bool, bool]:
    """Whether the type is right, and whether the value is to be taken for a variable's name.

    Where the accepted values are of another type than the parameter (a name for an object, say),
    that type is right too.
    """
    sample = next((type(one) for one in accepted if one != ""), None)
    if type(value) is not wanted:
        return sample is not None and type(value) is sample, True
    is_variable = sample is not None and sample is not wanted
    if item is None:
        return True, is_variable
    nested = (not isinstance(one, list) or _all_fit(value, item, one) for one in accepted)
    return any(nested), is_variable


def _all_fit(values: Any, item: type, accepted: Sequence[Any]) -> bool:
    return all(_fits(value, item, None, accepted)[0] for value in values)


def _is_accepted(value: Any, wanted: type, item: type | None, accepted: Sequence[Any]) -> bool:
    if wanted is dict:
        return any(_same_object(value, one) for one in accepted if one != "")
    if wanted is list and item is dict:
        return any(_same_objects(value, one) for one in accepted)
    if wanted is str:
        return plain(value) in [plain(one) for one in accepted if isinstance(one, str)]
    if wanted is list:
        # The empty text, for "may be left out", counts as an empty list.
        bare = [plain(one) for one in value]
        lists = (one for one in accepted if isinstance(one, list | str))
        return bare in [[plain(inner) for inner in one] for one in lists]
    return value in accepted


def _same_objects(values: Sequence[Any], accepted: Any) -> bool:
    if not isinstance(accepted, list | str) or len(values) != len(accepted):
        return False
    return all(map(_same_object, values, accepted))


def _same_object(value: Any, accepted: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(accepted, dict):
        return False
    for key, inner in value.items():
        if key not in accepted or plain(inner) not in [plain(one) for one in accepted[key]]:
            return False
    return all(key in value or "" in one for key, one in accepted.items())


def plain(value: Any) -> Any:
    """A text without what does not matter; other values as they are."""
    if not isinstance(value, str):
        return value
    return _IGNORED.sub("", value).lower().replace("'", '"')
