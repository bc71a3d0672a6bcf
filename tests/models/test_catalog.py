from __future__ import annotations

import re
from pathlib import Path

import pytest

from models.catalog import HubSource, PackagesSource, load_catalog, parse_catalog, resolve
from server.config import DEFAULT_MODEL
from server.errors import SetupError
from tests.models.helpers import PIECE, content_of, entry_for

ENTRY = """
[[models]]
name = "a"
aliases = ["b"]
file = "a.gguf"
licence = "none"
context_length = 8
description = ""
sources = [{ kind = "hub", repo = "x/y", file = "z.gguf" }]
"""
HASH = "0" * 64


def test_the_shipped_catalog_is_sound() -> None:
    catalog = load_catalog()
    assert [entry.name for entry in catalog.models if entry.default] == [DEFAULT_MODEL]
    for entry in catalog.models:
        assert entry.sources
        assert entry.expected_size > 0
        assert entry.context_length > 0
        assert entry.name == entry.name.lower()


def test_what_installs_without_a_hub_is_there_with_its_hash() -> None:
    catalog = load_catalog()
    from_packages = {
        entry.name: (entry.size, source.count)
        for entry in catalog.models
        for source in entry.sources
        if isinstance(source, PackagesSource)
    }
    assert from_packages == {
        "qwen2.5-coder-0.5b-instruct": (491400064, 6),
        "qwen2.5-coder-1.5b-instruct": (1117320768, 22),
        "smollm2-135m-instruct": (98362432, 1),
        "gemma-3-270m": (253113024, 4),
    }


def test_the_catalog_names_no_host() -> None:
    text = (Path(__file__).parents[2] / "models" / "catalog.toml").read_text("utf-8")
    assert not re.search(r"https?:|\.(org|com|co|io)\b", text)


def test_pieces_are_counted_not_sorted_as_text() -> None:
    assert PIECE.requirements[8:] == (
        "pieces-part9==1.0",
        "pieces-part10==1.0",
        "pieces-part11==1.0",
        "pieces-part12==1.0",
    )


def test_names_are_found_in_any_case_and_by_alias() -> None:
    catalog = load_catalog()
    entry = catalog.find(DEFAULT_MODEL.upper())
    assert entry is not None
    assert all(catalog.find(alias) is entry for alias in entry.aliases)
    assert catalog.find("no-such-model") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[models]", "not TOML"),
        ("models = 3", "models"),
        (ENTRY.replace('kind = "hub"', 'kind = "ftp"'), "kind"),
        (ENTRY.replace("licence", "license"), "licence"),
        (ENTRY.replace("a.gguf", "../a.gguf"), "file"),
        (ENTRY + 'sha256 = "12"', "sha256"),
        (ENTRY + f'sha256 = "{HASH}"', "size and sha256"),
        (ENTRY + "size = 3", "size and sha256"),
        (ENTRY.replace('kind = "hub", repo = "x/y", file', 'kind = "url", url'), "only a hub"),
        (ENTRY.replace('"b"', '"A"'), "two of a"),
        (ENTRY + ENTRY.replace('"a"', '"c"').replace("a.gguf", "c.gguf"), "two of c"),
        (ENTRY + ENTRY.replace('"a"', '"c"').replace('"b"', '"d"'), "two of c"),
    ],
)
def test_a_wrong_catalog_is_refused(text: str, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        parse_catalog(text)


def test_a_right_catalog_is_read() -> None:
    (entry,) = parse_catalog(ENTRY).models
    assert entry.sources == (HubSource("hub", "x/y", "z.gguf"),)
    assert entry.names == ("a", "b")


def test_several_names_resolve_to_one_file(tmp_path: Path) -> None:
    catalog = load_catalog()
    names = ("smollm2-135m-instruct", "smollm2:135m", "SmolLM2-135M")
    models = [resolve(name, tmp_path, catalog) for name in names]
    assert {model.path.parent for model in models} == {tmp_path}
    assert {(model.name, model.path) for model in models} == {(models[0].name, models[0].path)}
    assert models[0].aliases == ("smollm2-135m", "smollm2:135m")


def test_a_path_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "My-Model.gguf"
    path.touch()
    model = resolve(str(path), tmp_path / "models", load_catalog())
    assert (model.name, model.path, model.entry) == ("My-Model", path, None)
    monkeypatch.chdir(tmp_path)
    assert resolve("My-Model.gguf", tmp_path / "models", load_catalog()).path == Path(path.name)


def test_an_unknown_name_gets_near_ones(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no model is called 'qwen2.5-code-0\.5b'") as caught:
        resolve("qwen2.5-code-0.5b", tmp_path, load_catalog())
    assert "did you mean qwen2.5-coder-0.5b-instruct" in caught.value.hint
    with pytest.raises(SetupError) as caught:
        resolve("zzzz", tmp_path, load_catalog())
    assert "did you mean" not in caught.value.hint


@pytest.mark.parametrize("name", ["./qwen", "gone.gguf", "/nowhere/x", "~no-such-user/x"])
def test_a_path_without_a_file_is_said_to_be_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetupError, match="is not there"):
        resolve(name, tmp_path, load_catalog())
    with pytest.raises(SetupError, match="a folder"):
        resolve(str(tmp_path), tmp_path, load_catalog())


def test_presence_needs_the_exact_size_where_it_is_known(tmp_path: Path) -> None:
    exact, loose = entry_for(content_of(1)), entry_for(None, size=7)
    assert not exact.is_present(tmp_path)
    (tmp_path / "model.gguf").write_bytes(content_of(1)[1:])
    assert not exact.is_present(tmp_path)
    assert loose.is_present(tmp_path)
    (tmp_path / "model.gguf").write_bytes(content_of(1))
    assert exact.is_present(tmp_path)


def test_the_fit_question_is_by_template() -> None:
    [entry] = parse_catalog(ENTRY + 'fit_question = ["signatures"]').models
    assert entry.fit_question == ("signatures",)
    assert parse_catalog(ENTRY).models[0].fit_question == ()


def test_a_bias_of_calls_is_by_template_and_bounded() -> None:
    [entry] = parse_catalog(ENTRY + "tool_call_bias = { native = -2.5, chatml = 1 }").models
    assert entry.tool_call_bias == {"native": -2.5, "chatml": 1.0}
    assert parse_catalog(ENTRY).models[0].tool_call_bias == {}
    with pytest.raises(SetupError, match="tool_call_bias"):
        parse_catalog(ENTRY + "tool_call_bias = { native = -101 }")
