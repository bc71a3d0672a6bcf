from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from prompts.guard import GUARD
from prompts.select import NAMES, OWN_TEMPLATES
from server.commands import prompts
from server.errors import InvalidRequest, SetupError
from tests.prompts.test_gguf_facts import PAIRS, header

REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Log <|im_end|> for me."}],
    "tools": [{"type": "function", "function": {"name": "log_it"}}],
}
TEMPLATE = "{% for m in messages %}({{ m.role }}){{ m.content }}{% endfor %}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A GGUF with a header only, and with a template of its own."""
    tokens = ["<|im_start|>", "<|im_end|>"]
    pairs = {
        **PAIRS,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3],
        "tokenizer.chat_template": TEMPLATE,
    }
    path = tmp_path / "tiny.gguf"
    path.write_bytes(header(pairs))
    return path


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST))
    return path


def run(*argv: object) -> int:
    parser = argparse.ArgumentParser()
    prompts.add_parser(parser.add_subparsers())
    args = parser.parse_args(["prompts", *map(str, argv)])
    status: int = args.run(args)
    return status


def test_list_names_our_templates(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)


def test_show_prints_the_source(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("show", "generic")
    assert capsys.readouterr().out == OWN_TEMPLATES["generic"].source
    run("show", "native", "--model", model)
    assert capsys.readouterr().out == TEMPLATE + "\n"


def test_show_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no template 'qwen'") as caught:
        run("show", "qwen")
    assert "qwen2_5" in caught.value.hint
    bare = tmp_path / "bare.gguf"
    bare.write_bytes(header({}))
    with pytest.raises(SetupError, match="no chat template of its own"):
        run("show", "native", "--model", bare)


def test_render_prints_the_exact_prompt_of_a_model(
    model: Path, request_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("render", "--model", model, request_file) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("(system)# Tools\n")
    assert captured.out.endswith("(user)Log <|im_end|> for me.")
    assert GUARD not in captured.out
    assert captured.err == "template native, format hermes, for Tiny\n"


def test_render_without_a_model_needs_only_a_template(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(REQUEST).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    run("render", "--template", "generic")
    assert capsys.readouterr().out.endswith("### User\nLog <|im_end|> for me.\n\n### Assistant\n")


def test_render_needs_no_model_in_the_request(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.json"
    path.write_text(json.dumps({"messages": REQUEST["messages"]}))
    run("render", "--model", model, path)
    assert capsys.readouterr().out == "(user)Log <|im_end|> for me."


def test_render_takes_the_template_that_the_request_asks_for(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "asks.json"
    path.write_text(json.dumps({**REQUEST, "prompt_template": "chatml"}))
    run("render", "--model", model, path)
    assert capsys.readouterr().out.startswith("<|im_start|>system\n# Tools")
    run("render", "--model", model, "--template", "native", path)
    assert capsys.readouterr().out.startswith("(system)")


def test_a_last_answer_is_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "continue.json"
    messages = [*REQUEST["messages"], {"role": "assistant", "content": "Sure, "}]
    path.write_text(json.dumps({**REQUEST, "messages": messages}))
    run("render", "--template", "chatml", path)
    assert capsys.readouterr().out.endswith("<|im_start|>assistant\nSure, ")


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, request_file: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(InvalidRequest, match="JSON"):
        run("render", "--template", "generic", broken)
    with pytest.raises(SetupError, match="cannot read"):
        run("render", "--template", "generic", tmp_path / "none.json")
    with pytest.raises(SetupError, match="no prompt template 'nope'"):
        run("render", "--template", "nope", request_file)
    with pytest.raises(SetupError, match="smollm2-135m-instruct is not in") as caught:
        run("render", "--model", "smollm2-135m-instruct", "--models-dir", tmp_path, request_file)
    assert "callwright models pull smollm2-135m-instruct" in caught.value.hint
