"""Settings: flags over variables over defaults, and what is said about a bad one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from server import config
from server.config import PREFIX, Settings
from server.errors import SetupError

Load = Callable[..., Settings]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the machine, and no folder of the user."""
    for name in Settings.model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="callwright")
    config.add_flags(made)
    return made


def load(*flags: str) -> Settings:
    return config.load(parser().parse_args(flags))


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


# For every setting a value that is not its default, as it is written and as it is read.
OTHER: dict[str, tuple[str, Any]] = {
    "model": ("my.gguf", "my.gguf"),
    "alias": ("gpt-4o, other", ("gpt-4o", "other")),
    "models_dir": ("/srv/models", Path("/srv/models")),
    "offline": ("true", True),
    "prompt_template": ("native", "native"),
    "context_length": ("4096", 4096),
    "threads": ("3", 3),
    "gpu_layers": ("0", 0),
    "batch_tokens": ("64", 64),
    "max_sequences": ("2", 2),
    "cached_sequences": ("0", 0),
    "cached_tokens": ("2000", 2000),
    "host_cache_tokens": ("0", 0),
    "cache_file": ("/srv/cache", Path("/srv/cache")),
    "draft_tokens": ("0", 0),
    "lookup_tokens": ("3", 3),
    "flash_attention": ("off", "off"),
    "kv_cache_type": ("q8_0", "q8_0"),
    "reproducible": ("true", True),
    "fast_copy": ("false", False),
    "mlock": ("true", True),
    "temperature": ("0.5", 0.5),
    "tool_call_bias": ("-2.5", -2.5),
    "more_calls_bias": ("6", 6.0),
    "affinity_weight": ("0.1", 0.1),
    "fit_question": ("true", True),
    "reasoning_budget": ("512", 512),
    "queue_length": ("3", 3),
    "request_timeout_s": ("2.5", 2.5),
    "max_body_bytes": ("4096", 4096),
    "max_tools": ("7", 7),
    "max_messages": ("9", 9),
    "max_grammar_chars": ("99", 99),
    "max_depth": ("12", 12),
    "max_connections": ("5", 5),
    "client_timeout_s": ("1.5", 1.5),
    "shutdown_grace_s": ("0", 0),
    "responses_store": ("off", "off"),
    "responses_retention_days": ("0.5", 0.5),
    "responses_max_count": ("5", 5),
    "responses_max_bytes": ("2048", 2048),
    "host": ("::1", "::1"),
    "port": ("0", 0),
    "api_key": ("sk-a,sk-b", ("sk-a", "sk-b")),
    "allow_open_network": ("true", True),
    "cors_origin": ("https://a.example", ("https://a.example",)),
    "allowed_host": ("box.example", ("box.example",)),
    "keep_alive_s": ("60", 60),
    "ping_s": ("0.5", 0.5),
    "log_format": ("json", "json"),
    "log_level": ("debug", "debug"),
    "log_prompts": ("true", True),
}


def test_every_setting_is_tried_here() -> None:
    assert set(OTHER) == set(Settings.model_fields)
    assert not [name for name, (_, value) in OTHER.items() if getattr(load(), name) == value]


@pytest.mark.parametrize("name", OTHER)
def test_a_variable_beats_the_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written, value = OTHER[name]
    monkeypatch.setenv(PREFIX + name.upper(), written)
    assert getattr(load(), name) == value


@pytest.mark.parametrize("name", OTHER)
def test_a_flag_beats_a_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written, value = OTHER[name]
    if isinstance(value, bool):
        for variable in ("true", "false"):
            monkeypatch.setenv(PREFIX + name.upper(), variable)
            assert getattr(load(f"--no-{flag(name)[2:]}"), name) is False
            assert getattr(load(flag(name)), name) is True
        return
    if (default := getattr(load(), name)) is not None:
        monkeypatch.setenv(PREFIX + name.upper(), str(default))
    assert getattr(load(flag(name), written), name) == value


@pytest.mark.parametrize("name", OTHER)
def test_help_shows_flag_variable_and_default(name: str) -> None:
    text = "".join(parser().format_help().split())  # without the breaks between and within words
    default = getattr(load(), name)
    shown = {(): "none"}.get(default, f"{default:g}" if type(default) is float else default)
    assert f"{flag(name)}" in text
    assert f"(default:{shown};{PREFIX}{name.upper()})" in text


def test_flags_are_independent_of_each_other() -> None:
    written = [text for name in OTHER for text in _as_flags(name)]
    settings = load(*written)
    assert settings.model_dump() == {name: value for name, (_, value) in OTHER.items()}


def _as_flags(name: str) -> list[str]:
    written, value = OTHER[name]
    if isinstance(value, bool):
        return [flag(name) if value else f"--no-{flag(name)[2:]}"]
    return [flag(name), written]


def test_lists_may_be_given_in_one_or_several_flags() -> None:
    assert load("--alias", "a,b", "--alias", " c ,").alias == ("a", "b", "c")


def test_a_command_may_take_some_of_the_settings() -> None:
    made = argparse.ArgumentParser()
    config.add_flags(made, ["port"])
    assert config.load(made.parse_args(["--port", "9"])).port == 9
    with pytest.raises(SystemExit):
        made.parse_args(["--host", "x"])


# Bad values


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("port", "http"),
        ("port", "65536"),
        ("port", "-1"),
        ("port", "80.5"),
        ("context_length", "-5"),
        ("temperature", "hot"),
        ("temperature", "2.1"),
        ("temperature", "nan"),
        ("max_body_bytes", "1"),
        ("ping_s", "0"),
        ("keep_alive_s", "1"),
        ("max_sequences", "0"),
    ],
)
def test_a_bad_value_is_named_with_flag_and_variable(
    name: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SetupError) as by_flag:
        load(f"{flag(name)}={written}")
    monkeypatch.setenv(PREFIX + name.upper(), written)
    with pytest.raises(SetupError) as by_variable:
        load()
    for error in (by_flag, by_variable):
        assert flag(name) in error.value.message
        assert PREFIX + name.upper() in error.value.message
        assert written in error.value.message
        assert "\n" not in error.value.message


@pytest.mark.parametrize(("name", "written"), [("offline", "perhaps"), ("log_level", "loud")])
def test_a_bad_variable_is_named(name: str, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PREFIX + name.upper(), written)
    with pytest.raises(SetupError, match=PREFIX + name.upper()):
        load()


def test_all_bad_values_are_told_at_once() -> None:
    with pytest.raises(SetupError, match=r"--port.*--threads|--threads.*--port"):
        load("--port", "x", "--threads", "y")


def test_an_unknown_flag_or_choice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["--prot", "9"], ["--log-level", "loud"], ["--kv-cache-type", "q2"]):
        with pytest.raises(SystemExit) as ended:
            load(*flags)
        assert ended.value.code == 2
        assert flags[0] in capsys.readouterr().err


@pytest.mark.parametrize("written", ["", " ", ",", " , "])
@pytest.mark.parametrize("name", config.COMMA_LISTS)
def test_an_empty_list_is_no_value_for_a_flag_and_unset_as_a_variable(
    name: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty key must neither be a key, nor quietly mean that none is needed."""
    with pytest.raises(SetupError, match=f"{flag(name)} is empty"):
        load(flag(name), written)
    monkeypatch.setenv(PREFIX + name.upper(), written)
    assert getattr(load(), name) == ()


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OTHER:
        monkeypatch.setenv(PREFIX + name.upper(), "")
    filled = load()
    for name in OTHER:
        monkeypatch.delenv(PREFIX + name.upper())
    assert filled == load()


# What must hold of the object


def test_keys_are_never_shown() -> None:
    settings = load("--api-key", "sk-planted")
    assert "sk-planted" not in repr(settings)
    assert "sk-planted" not in str(settings)
    with pytest.raises(SetupError) as error:
        load("--api-key", "sk-planted", "--port", "x")
    assert "sk-planted" not in error.value.message


def test_nobody_writes_to_the_settings() -> None:
    with pytest.raises(ValidationError):
        load().port = 9  # type: ignore[misc]


def test_defaults_are_safe_on_a_workstation() -> None:
    settings = load()
    assert settings.host == "127.0.0.1"
    assert settings.cors_origin == ()
    assert not settings.log_prompts
    assert settings.keep_alive_s >= 60


def test_models_live_in_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load().models_dir == tmp_path / ".local" / "share" / "callwright" / "models"
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert load().models_dir == Path("/data/callwright/models")


def test_without_a_home_folder_it_is_said_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a user without an entry in /etc/passwd
    with pytest.raises(SetupError) as error:
        parser()
    assert error.value.hint == "Set HOME, or XDG_DATA_HOME."
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert load().models_dir == Path("/data/callwright/models")


def test_a_tilde_is_the_home_folder_however_it_came(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert load("--models-dir=~/m").models_dir == tmp_path / "m"
    monkeypatch.setenv("CALLWRIGHT_MODELS_DIR", "~/n")
    assert load().models_dir == tmp_path / "n"
    with pytest.raises(SetupError, match=r"--models-dir .* home directory"):
        load("--models-dir", "~no-such-user/m")
