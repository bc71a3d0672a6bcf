"""A user's own cases: tools, phrasings of what may be asked, and the calls that are right.

A folder has YAML files with `tools` and `cases`, and JSONL files with a case a line; a case without
`tools` takes those of its file, or of `tools.yaml` in the folder. A case:

    expect: [{get_weather: {city: Porto}}]      # or `none`; a call as {name: arguments}
    phrasings: [What is the weather in Porto?, ...]

An argument is its value, or `{one_of: [...], optional: true}`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from prompts.bench.cases import Case, ExpectedCall, JsonObject
from server.errors import SetupError

LEAST_PHRASINGS = 5
_CHOICE_KEYS = {"one_of", "optional"}
_TOOLS_FILE = "tools.yaml"

EXAMPLE = """\
# Each tool deserves five phrasings that must pass: callwright tools verify weather.yaml
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


def read_cases(path: Path) -> list[Case]:
    """All cases of a file or of a folder, a case for each phrasing. Raises SetupError."""
    if not path.exists():
        raise SetupError(f"there is no {path}", hint="`callwright bench init DIR` writes one.")
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in (".yaml", ".yml", ".jsonl"))
    shared = path / _TOOLS_FILE
    common = _document(shared).get("tools", []) if path.is_dir() and shared.is_file() else []
    cases = [case for one in files for case in _file_cases(one, common)]
    if not cases:
        raise SetupError(f"{path} has no cases")
    return cases


def too_few_phrasings(cases: Sequence[Case]) -> dict[str, int]:
    """Tools that fewer than five phrasings expect, with how many do."""
    counts = Counter(name for case in cases for name in {one.name for one in case.expected})
    tools = dict.fromkeys(tool["function"]["name"] for case in cases for tool in case.tools)
    return {name: counts[name] for name in tools if counts[name] < LEAST_PHRASINGS}


def _file_cases(path: Path, common: Any) -> Iterator[Case]:
    if path.suffix == ".jsonl":
        entries = [_line(path, at, text) for at, text in _lines(path)]
        tools = common
    else:
        document = _document(path)
        entries, tools = document.get("cases", []), document.get("tools", common)
    if not isinstance(entries, list):
        raise SetupError(f"{path}: `cases` has to be a list")
    for at, entry in enumerate(entries):
        where = f"{path.name}: case {at + 1}"
        try:
            yield from _entry_cases(entry, tools, path.stem, at)
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            hint = "It needs `expect` and `phrasings`; see `callwright bench init`."
            raise SetupError(f"{where} cannot be read: {exc}", hint=hint) from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for at, text in enumerate(_text(path).split("\n"), start=1):
        if text.strip():
            yield at, text


def _line(path: Path, at: int, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise SetupError(f"{path.name}, line {at} is not JSON: {exc}") from None


def _document(path: Path) -> JsonObject:
    try:
        document = yaml.safe_load(_text(path))
    except (yaml.YAMLError, RecursionError) as exc:
        raise SetupError(f"{path} is not YAML: {' '.join(str(exc).split())[:300]}") from None
    if not isinstance(document, dict):
        raise SetupError(f"{path} has to have `tools` and `cases`")
    return document


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise SetupError(f"{path} is not UTF-8 text: byte {exc.start} is wrong") from None


def _entry_cases(entry: JsonObject, common: Any, stem: str, at: int) -> Iterator[Case]:
    tools = [_tool(one) for one in entry.get("tools", common)]
    types = {one["function"]["name"]: one["function"].get("parameters", {}) for one in tools}
    expected = [] if entry["expect"] in ("none", [], None) else list(map(_call, entry["expect"]))
    for one in expected:
        if one.name not in types:
            raise ValueError(f"it expects the tool {one.name}, which is not offered")
        if unknown := set(one.accepted) - set(types[one.name].get("properties", {})):
            raise ValueError(f"{one.name} has no parameter {', '.join(sorted(unknown))}")
    for number, phrasing in enumerate(entry["phrasings"]):
        asked = {"role": "user", "content": phrasing} if isinstance(phrasing, str) else None
        yield Case(
            id=f"{stem}-{at + 1}-{number + 1}",
            category=str(entry.get("category", stem)),
            messages=tuple(phrasing) if asked is None else (asked,),
            tools=tuple(tools),
            types=types,
            need="calls" if expected else "none",
            expected=tuple(expected),
            in_any_order=len(expected) > 1,
        )


def _tool(entry: JsonObject) -> JsonObject:
    if not isinstance(entry.get("function", entry)["name"], str):
        raise ValueError("a tool's name has to be a text")
    return entry if "function" in entry else {"type": "function", "function": entry}


def _call(entry: JsonObject) -> ExpectedCall:
    ((name, arguments),) = entry.items()
    return ExpectedCall(name, {key: _accepted(one) for key, one in (arguments or {}).items()})


def _accepted(value: Any) -> list[Any]:
    if not (isinstance(value, dict) and value and set(value) <= _CHOICE_KEYS):
        return [_members(value)]
    return [*map(_members, value.get("one_of", [])), *([""] if value.get("optional") else [])]


def _members(value: Any) -> Any:
    """Members of an object have lists of accepted values, also inside lists."""
    if isinstance(value, list):
        return [_members(one) if isinstance(one, dict) else one for one in value]
    if isinstance(value, dict):
        return {key: _accepted(one) for key, one in value.items()}
    return value
