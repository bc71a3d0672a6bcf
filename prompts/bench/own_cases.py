"""A user's own cases: tools, phrasings of what may be asked, and the calls that are right.

A folder has YAML files with `tools` and `cases`, and JSONL files with a case a line; a case without
`tools` takes those of its file, or of `tools.yaml` in the folder. A case:

    expect: [{get_weather: {city: Porto}}]      # or `none`; a call as {name: arguments}
    phrasings: [What is the weather in Porto?, ...]

A phrasing is a text, or a list of messages. Several expected calls may come in any order.

An argument, and a member of an object in one, is

    Porto                                       # in any case, with any white space around
    {exact: Porto}                              # letter by letter, also {exact: {...}}
    {one_of: [Porto, {exact: OPO}]}             # any of these
    {one_of: [Porto], optional: true}           # may also be left out; so may {exact: ...}

Values are compared as `exact.py` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prompts.bench.cases import Case, ExpectedCall, JsonObject, check_unique
from prompts.bench.documents import QUOTE, Slip, check_json, read_jsonl, read_yaml
from prompts.bench.exact import folded
from prompts.bench.expectations import read_call, read_tools
from server.errors import SetupError

LEAST_PHRASINGS = 5
_TOOLS_FILE = "tools.yaml"
_CASE_KEYS = {"expect", "phrasings", "tools", "category"}
_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_MESSAGES_HINT = "A phrasing is a text, or a list of messages with `role` and `content`."

EXAMPLE = """\
# Each tool deserves five phrasings that must pass: callwright tools verify weather.yaml
# Of texts, case and white space do not matter; {exact: Porto} is only right letter by letter.
tools:
  - name: get_weather
    description: Current weather of a city.
    parameters:
      type: object
      properties:
        city: {type: string, description: "Name of the city, such as Porto."}
        unit: {type: string, enum: [celsius, fahrenheit]}
      required: [city]

cases:
  - expect: [{get_weather: {city: Porto, unit: {one_of: [celsius], optional: true}}}]
    phrasings:
      - What is the weather in Porto?
      - Is it raining in Porto right now?
      - I am off to Porto. Do I need a coat?
      - How warm is it in Porto today?
      - 波尔图(Porto)现在天气怎么样？
  - expect: none
    phrasings:
      - Thank you, that is all.
      - Write a haiku about spring.
"""


def write_example(folder: Path) -> Path:
    """A file to begin with, inside `folder`. Raises SetupError if it is there already."""
    path = folder / "weather.yaml"
    if path.exists():
        raise SetupError(f"{path} is there already", hint="Give another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(EXAMPLE, "utf-8")
    return path


@dataclass(frozen=True)
class _Place:
    """A case by its file and its number there, and `where` that is for messages."""

    path: Path
    number: int
    where: str


def read_cases(path: Path) -> list[Case]:
    """All cases of a file or of a folder, a case for each phrasing. Raises SetupError."""
    if not path.exists():
        raise SetupError(f"there is no {path}", hint="`callwright bench init DIR` writes one.")
    files, common = [path], {}
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in (".yaml", ".yml", ".jsonl"))
        if path / _TOOLS_FILE in files:
            common = _common_tools(path / _TOOLS_FILE, read_yaml(path / _TOOLS_FILE)) or {}
    cases = [case for one in files for case in _file_cases(one, common)]
    if not cases:
        raise SetupError(f"{path} has no cases")
    check_unique(cases)
    return cases


def too_few_phrasings(cases: Sequence[Case]) -> dict[str, int]:
    """Tools that fewer than five phrasings expect, with how many do. The same one counts once."""
    phrasings: dict[str, set[str]] = {}
    for case in cases:
        for tool in case.tools:
            phrasings.setdefault(tool["function"]["name"], set())
        asked = folded("\n".join(f"{one['role']} {one.get('content')}" for one in case.messages))
        for call in case.expected:
            phrasings[call.name].add(asked)
    counts = {name: len(found) for name, found in phrasings.items()}
    return {name: count for name, count in counts.items() if count < LEAST_PHRASINGS}


def _file_cases(path: Path, common: Mapping[str, JsonObject]) -> Iterator[Case]:
    if path.suffix == ".jsonl":
        entries, tools = list(read_jsonl(path)), common
    else:
        document = read_yaml(path)
        listed = document.get("cases", [])
        if not isinstance(listed, list):
            raise SetupError(f"{path}: `cases` has to be a list")
        entries = [(f"{path}: case {at}", entry) for at, entry in enumerate(listed, start=1)]
        own = _common_tools(path, document)
        tools = common if own is None else own
    for number, (where, entry) in enumerate(entries, start=1):
        try:
            yield from _entry_cases(entry, tools, _Place(path, number, where))
        except Slip as exc:
            raise SetupError(f"{where}: {exc}", hint=exc.hint) from None


def _common_tools(path: Path, document: JsonObject) -> dict[str, JsonObject] | None:
    """The tools of a file; None if it has none."""
    if "tools" not in document:
        return None
    try:
        check_json(document["tools"], "tools")
        return read_tools(document["tools"])
    except Slip as exc:
        raise SetupError(f"{path}: {exc}", hint=exc.hint) from None


def _entry_cases(entry: Any, common: Mapping[str, JsonObject], place: _Place) -> Iterator[Case]:
    if not isinstance(entry, dict) or not {"expect", "phrasings"} <= set(entry):
        raise Slip(
            "it needs `expect` and `phrasings`", "`callwright bench init` writes an example."
        )
    check_json(entry, "the case")
    if unknown := set(entry) - _CASE_KEYS:
        raise Slip(f"it has {', '.join(sorted(unknown))}, which a case does not have")
    category = entry.get("category", place.path.stem)
    if not isinstance(category, str):
        raise Slip("`category` has to be text", QUOTE)
    tools = read_tools(entry["tools"]) if "tools" in entry else common
    expected = _expected(entry["expect"], tools)
    if not isinstance(entry["phrasings"], list):
        raise Slip("`phrasings` has to be a list")
    for number, phrasing in enumerate(entry["phrasings"], start=1):
        yield Case(
            id=f"{place.path.stem}-{place.number}-{number}",
            category=category,
            messages=_messages(phrasing, number),
            tools=tuple(tools.values()),
            types={name: one["function"].get("parameters", {}) for name, one in tools.items()},
            need="calls" if expected else "none",
            expected=expected,
            in_any_order=len(expected) > 1,
            rules="own",
            source=place.where,
        )


def _expected(calls: Any, tools: Mapping[str, JsonObject]) -> tuple[ExpectedCall, ...]:
    if calls == "none":
        return ()
    if not isinstance(calls, list):
        raise Slip("`expect` has to be `none` or a list of calls, [{NAME: ARGUMENTS}]")
    return tuple(read_call(one, tools) for one in calls)


def _messages(phrasing: Any, number: int) -> tuple[JsonObject, ...]:
    """What is asked: one message of the user, or those that are given. Raises Slip."""
    name = f"phrasing {number}"
    if isinstance(phrasing, dict):
        raise Slip(
            f"{name} is a mapping, not text",
            "A colon before a space makes a mapping in YAML: put the phrasing in quotes.",
        )
    if isinstance(phrasing, str) and phrasing.strip():
        return ({"role": "user", "content": phrasing},)
    if not phrasing or isinstance(phrasing, str):
        raise Slip(f"{name} is empty", _MESSAGES_HINT)
    if not isinstance(phrasing, list):
        raise Slip(f"{name} is {phrasing!r:.40}, not text", QUOTE)
    for message in phrasing:
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            raise Slip(f"a message of {name} has no role that the API knows", _MESSAGES_HINT)
        if message.get("content") is None and not message.get("tool_calls"):
            raise Slip(f"a message of {name} has no content", _MESSAGES_HINT)
    return tuple(phrasing)
