from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from prompts.bench import bfcl
from prompts.bench.bfcl_schema import as_tool
from server.errors import SetupError
from tests.prompts.bench.samples import TIME, WEATHER, row


def archive(folder: Path) -> Path:
    """A wheel with two categories."""
    path = folder / "x.whl"
    with zipfile.ZipFile(path, "w") as made:
        for name, content in (
            ("BFCL_v4_simple_python.json", row(id="s_0")),
            ("possible_answer/BFCL_v4_simple_python.json",
             {"id": "s_0", "ground_truth": [{"get_weather": {"city": ["Porto"]}}]}),
            ("BFCL_v4_irrelevance.json", row(id="i_0")),
        ):  # fmt: skip
            made.writestr(f"bfcl_eval/data/{name}", json.dumps(content) + "\n")
    return path


def test_cases_are_read_with_their_answers(tmp_path: Path) -> None:
    cases = bfcl.read(archive(tmp_path), ["simple_python", "irrelevance"])
    assert [(one.id, one.need) for one in cases] == [("s_0", "calls"), ("i_0", "none")]
    assert cases[0].expected[0].accepted == {"city": ["Porto"]}
    assert cases[0].messages[0]["content"] == "Weather in Porto?"


@pytest.mark.parametrize(
    ("category", "says"),
    [("multi_turn_base", "simulated APIs"), ("mine", "no category"), ("parallel", "not the archi")],
)
def test_what_cannot_be_read(tmp_path: Path, category: str, says: str) -> None:
    with pytest.raises(SetupError, match=says):
        bfcl.read(archive(tmp_path), [category])


def test_the_archive_is_fetched_once_and_only_with_the_right_bytes(tmp_path: Path) -> None:
    made = archive(tmp_path)
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    asked = []

    def download(requirement: str, folder: Path) -> Path:
        asked.append(requirement)
        return Path(made.replace(folder / "x.whl"))

    cache = tmp_path / "cache"
    first = bfcl.fetch(cache, download, digest)
    assert bfcl.fetch(cache, download, digest) == first
    assert asked == [bfcl.REQUIREMENT]
    archive(tmp_path)
    with pytest.raises(SetupError, match="other bytes"):
        bfcl.fetch(tmp_path / "other", download)
    assert list((tmp_path / "other").iterdir()) == []


def test_types_become_json_schema() -> None:
    schema = as_tool(WEATHER, "python")["function"]["parameters"]
    kinds = {name: one["type"] for name, one in schema["properties"].items()}
    assert kinds == {
        "city": "string", "days": "integer", "limit": "number", "tags": "array",
        "place": "object", "stops": "array",
    }  # fmt: skip
    assert schema["properties"]["place"]["properties"] == {"lat": {"type": "number"}}
    assert schema["required"] == ["city"]


def test_parameters_of_java_are_texts_in_its_notation() -> None:
    items = {"type": "ArrayList", "items": {"type": "long"}, "description": "Ids."}
    function: dict[str, Any] = {
        **TIME, "parameters": {"type": "dict", "properties": {"ids": items}, "required": []},
    }  # fmt: skip
    made = as_tool(function, "java")["function"]
    said = made["parameters"]["properties"]["ids"]
    assert said["type"] == "string"
    assert "type ArrayList" in said["description"]
    assert "type long" in said["description"]
    assert "required" not in made["parameters"]


def test_an_unknown_type_is_told() -> None:
    function = {**TIME, "parameters": {"type": "dict", "properties": {"a": {"type": "queue"}}}}
    with pytest.raises(SetupError, match="'queue'"):
        as_tool(function, "python")
