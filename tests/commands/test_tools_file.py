from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.commands.tools_file import read_choice, read_tools
from server.config import Settings
from server.errors import SetupError
from tests.commands.helpers import WEATHER

SETTINGS = Settings()
BARE = WEATHER["function"]


@pytest.mark.parametrize(
    "written",
    [
        [WEATHER],
        WEATHER,
        BARE,
        [BARE],
        {"type": "function", **BARE},  # as the Responses API has it
        {"function": BARE},
    ],
)
def test_every_spelling_of_a_tool_comes_out_as_the_same_tool(
    tmp_path: Path, written: object
) -> None:
    path = tmp_path / "tools.json"
    path.write_text("\ufeff" + json.dumps(written), "utf-8")
    [tool] = read_tools(path, SETTINGS)
    assert tool["function"] == BARE
    assert tool.get("type", "function") == "function"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[1,\n 2", "is not JSON: Expecting ',' delimiter at line 2, column 3"),
        ("", "is not JSON: Expecting value at line 1, column 1"),
        ("[NaN]", "is not usable JSON: NaN is not JSON"),
        ("[" * 100 + "]" * 100, "is not usable JSON: nested deeper than 64 levels"),
        ("[]", "is an empty list"),
        ("3", "has no tools in it"),
        ("[null]", "tools[0]: "),
        ('{"type": "web_search"}', "tools[0].type: "),
        ('[{"name": "a"}, {"name": "b c"}]', "tools[1].function.name: 'b c' will not do"),
        ('[{"name": "a"}, {"name": "a"}]', "tools[1] and tools[0] are both called 'a'"),
        ('{"name": "a", "parameters": {"properties": [1]}}', "tools[0].function.parameters: "),
        ('{"name": "a", "parameters": {"type": "string"}}', "tools[0].function.parameters: "),
    ],
)
def test_what_is_wrong_is_said_with_file_and_place(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)
    with pytest.raises(SetupError) as caught:
        read_tools(path, SETTINGS)
    assert caught.value.message.startswith(str(path))
    assert complaint in caught.value.message
    assert "\n" not in caught.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file"):
        read_tools(tmp_path / "none.json", SETTINGS)
    with pytest.raises(SetupError, match=r"cannot read the tools file ~no-such-user/x\.json"):
        read_tools(Path("~no-such-user/x.json"), SETTINGS)
    with pytest.raises(SetupError, match="Is a directory"):
        read_tools(tmp_path, SETTINGS)
    (tmp_path / "latin.json").write_bytes(b'"caf\xe9"')
    with pytest.raises(SetupError, match="not UTF-8 text: byte 4"):
        read_tools(tmp_path / "latin.json", SETTINGS)


def test_a_choice_is_a_mode_or_the_name_of_a_tool() -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    assert read_choice(None, [], SETTINGS) == "auto"
    assert read_choice("none", [], SETTINGS) == "none"
    assert read_choice("required", [WEATHER], SETTINGS) == "required"
    assert read_choice("get_weather", [WEATHER], SETTINGS) == named


@pytest.mark.parametrize(
    ("name", "tools", "complaint"),
    [
        ("required", [], "--tool-choice: tool_choice is required, but there are no tools"),
        ("get_weather", [], "--tool-choice: tool_choice names a tool, but there are no tools"),
        ("other", [WEATHER], "--tool-choice: tool_choice names 'other', which is none of"),
    ],
)
def test_a_choice_that_cannot_be_met(name: str, tools: list[object], complaint: str) -> None:
    with pytest.raises(SetupError, match=complaint):
        read_choice(name, tools, SETTINGS)  # type: ignore[arg-type]
