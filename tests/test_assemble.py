"""A model file and settings become the application's parts: each setting reaches its part."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.catalog import CatalogEntry, LocalModel
from server import assemble as assembly
from server.app import create_app
from server.assemble import assemble, model_facts
from server.config import Settings
from server.engine.runner import RunnerOptions
from server.errors import SetupError
from server.parts import Parts
from tests.fakes import ScriptedRunner, Scripts, byte_vocabulary
from tests.serving import CHAT, TEMPLATE, Rig, settings, started

HELLO = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0}


class _Loaded(ScriptedRunner):
    """A runner as if a GGUF had been loaded; remembers what it was asked for."""

    def __init__(self, path: Path, options: RunnerOptions, template: str | None = TEMPLATE) -> None:
        super().__init__(Scripts({"hello": "Hi."}), sequences=options.sequences)
        self.path = path
        self.options = options
        self.template = template

    def chat_template(self) -> str | None:
        return self.template

    def identity(self) -> str:
        return str(self.path)


def loaded(
    monkeypatch: pytest.MonkeyPatch, made: Settings, model: LocalModel | None = None
) -> tuple[Parts, _Loaded]:
    runners: list[_Loaded] = []

    def load(path: Path, options: RunnerOptions, _: object) -> _Loaded:
        runners.append(_Loaded(path, options))
        return runners[0]

    monkeypatch.setattr(assembly, "LlamaRunner", load)
    file = model or LocalModel("tiny", (), Path("/m/tiny.gguf"), None)
    return assemble(made, file), runners[0]


def test_settings_reach_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    made = settings(
        context_length=1234,
        threads=3,
        gpu_layers=7,
        batch_tokens=99,
        max_sequences=2,
        cached_sequences=5,
        flash_attention="on",
        kv_cache_type="q8_0",
        mlock=True,
    )
    _, runner = loaded(monkeypatch, made)
    assert runner.path == Path("/m/tiny.gguf")
    assert runner.options == RunnerOptions(
        context_length=1234,
        threads=3,
        gpu_layers=7,
        batch_tokens=99,
        sequences=2 + 5,
        flash_attention="on",
        kv_cache_type="q8_0",
        mlock=True,
    )


def test_names_are_the_models_then_its_aliases_then_the_users_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = LocalModel("tiny", ("tiny:1", "t"), Path("/m/tiny.gguf"), None)
    parts, _ = loaded(monkeypatch, settings(alias=("gpt-4o", "t")), model)
    assert parts.model_names == ("tiny", "tiny:1", "t", "gpt-4o")


def test_the_faster_copy_is_loaded_unless_a_gpu_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(path: Path, folder: Path) -> Path:
        assert folder == Path("/m/fast")
        return folder / path.name

    monkeypatch.setattr(assembly, "widened", copy)
    made = settings(fast_copy=True, models_dir=Path("/m"))
    for gpu, used in ((False, "/m/fast/tiny.gguf"), (True, "/m/tiny.gguf")):
        monkeypatch.setattr(assembly, "supports_gpu", lambda gpu=gpu: gpu)
        assert loaded(monkeypatch, made)[1].path == Path(used)


async def test_the_cache_is_kept_where_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts, runner = loaded(monkeypatch, settings(batch_tokens=64, cache_file=tmp_path / "cache"))
    async with started(Rig(create_app(parts), parts, runner)) as client:
        await client.post(CHAT, json={**HELLO, "model": "tiny"})
    assert (tmp_path / "cache").stat().st_size > 100


async def test_the_parts_answer_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, runner = loaded(monkeypatch, settings(batch_tokens=64))
    async with started(Rig(create_app(parts), parts, runner)) as client:
        answer = await client.post(CHAT, json={**HELLO, "model": "tiny"})
    assert answer.json()["choices"][0]["message"]["content"] == "Hi."
    assert runner.closed


@pytest.mark.parametrize(("setting", "used"), [("auto", "chatml"), ("native", "native")])
def test_the_catalogs_template_is_used_unless_the_user_says_otherwise(
    setting: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = CatalogEntry(
        name="tiny",
        file="tiny.gguf",
        licence="MIT",
        context_length=512,
        description="",
        sources=(),
        prompt_template="chatml",
        tool_call_bias={"chatml": -1.5},
    )
    model = LocalModel("tiny", (), Path("/m/tiny.gguf"), entry)
    parts, _ = loaded(monkeypatch, settings(prompt_template=setting), model)
    assert parts.chat._renderers.default.template_name == used
    assert parts.chat._call_biases == {"chatml": -1.5}


def test_a_template_that_is_not_there_is_a_setup_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="nobody"):
        loaded(monkeypatch, settings(prompt_template="nobody"))


@pytest.mark.parametrize(("bos", "text"), [(False, ""), (True, "<s>")])
def test_what_prompts_need_to_know_of_a_model(bos: bool, text: str) -> None:
    facts = model_facts("tiny", None, byte_vocabulary(bos=bos))
    assert (facts.name, facts.chat_template) == ("tiny", None)
    assert (facts.bos, facts.adds_bos) == (text, bos)
    assert facts.eos == "<|endoftext|>"
    assert {"<|im_start|>", "<tool_call>", "<|endoftext|>"} <= set(facts.special_tokens)
