"""Settings: one frozen object, made once, from flags over `CALLWRIGHT_*` variables over defaults.

The only reader of the environment. Flags are generated from the fields, so that a setting is
written down once: its name, type, default, bounds and help text.
"""

from __future__ import annotations

import argparse
import json
import os
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from server.errors import SetupError

DEFAULT_MODEL = "qwen2.5-coder-0.5b-instruct"
PREFIX = "CALLWRIGHT_"
LOOPBACK = ("127.0.0.1", "::1", "localhost")

Names = Annotated[tuple[str, ...], NoDecode]


def data_dir() -> Path:
    """Where models and other lasting files live: XDG's data folder, made when first needed.

    Raises SetupError.
    """
    try:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    except RuntimeError:  # in a container that runs as a user without an entry in /etc/passwd
        raise SetupError(
            "it is not known where your home folder is", hint="Set HOME, or XDG_DATA_HOME."
        ) from None
    return Path(base) / "callwright"


def _default_models_dir() -> Path:
    return data_dir() / "models"


def _expanded(path: Path) -> Path:
    """With `~` as a shell has it, which leaves it alone after an equals sign."""
    try:
        return path.expanduser()
    except RuntimeError as exc:  # the home folder of nobody
        raise ValueError(str(exc)) from None


class Settings(BaseSettings):
    """All settings of all commands. 0 means "choose for me" where a field says so."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True
    )

    # The model
    model: str = Field(DEFAULT_MODEL, description="catalog name, or path of a GGUF file")
    alias: Names = Field((), description="further names under which clients may ask for it")
    models_dir: Annotated[Path, AfterValidator(_expanded)] = Field(
        default_factory=_default_models_dir, description="folder for fetched models"
    )
    offline: bool = Field(False, description="never use the network, also not to fetch a model")
    prompt_template: str = Field(
        "auto", description="auto, native (the GGUF's own), one of ours by name, or a Jinja file"
    )

    # The engine
    context_length: int = Field(
        0, ge=0, description="tokens of KV cache; 0: what the model was trained on, 8192 at most"
    )
    threads: int = Field(0, ge=0, description="CPU threads; 0: one per physical core")
    gpu_layers: int = Field(
        -1, ge=-1, description="layers to offload; -1: all if a GPU back end was built in"
    )
    batch_tokens: int = Field(256, ge=8, description="most tokens in one forward pass")
    max_sequences: int = Field(4, ge=1, le=64, description="requests that run at the same time")
    cached_sequences: int = Field(
        16, ge=0, le=128, description="finished sequences whose prompt may be reused"
    )
    cached_tokens: int = Field(
        0, ge=0, description="tokens that these may hold in the KV cache, where they slow all down"
    )
    host_cache_tokens: int = Field(
        6000, ge=0, description="tokens beyond these in ordinary memory, copied back when asked for"
    )
    cache_file: Annotated[Path, AfterValidator(_expanded)] | None = Field(
        None, description="file that keeps the prefix cache from the end of a run to the next start"
    )
    draft_tokens: int = Field(
        4, ge=0, le=16, description="likely tokens that one forward pass checks beside the next"
    )
    lookup_tokens: int = Field(
        0,
        ge=0,
        le=16,
        description="of these, copied from the prompt; pays on a GPU, not on 2 cores",
    )
    flash_attention: Literal["auto", "on", "off"] = Field("auto", description="flash attention")
    kv_cache_type: Literal["f16", "q8_0", "q4_0"] = Field("f16", description="type of the KV cache")
    reproducible: bool = Field(
        False,
        description="the same answer alone and in company, cached or not, to the last bit; on the"
        " CPU, with a slower prefill",
    )
    fast_copy: bool = Field(
        True, description="keep a copy of a model that CPUs compute faster, where that is to gain"
    )
    mlock: bool = Field(False, description="keep the model's pages in memory")

    temperature: float | None = Field(
        None, ge=0, le=2, description="where a request has none; by default 0 with tools, else 0.7"
    )

    tool_call_bias: float | None = Field(
        None,
        ge=-100,
        le=100,
        description="favours calls in auto, or text where negative; by default what was measured"
        " for the model, else 0",
    )

    more_calls_bias: float | None = Field(
        None,
        ge=-100,
        le=100,
        description="favours a further call over the end, where calls stand in a list; by default"
        " what was measured for the model, else 0",
    )
    fit_question: bool | None = Field(
        None,
        description="ask the model first whether a tool fits, in auto; by default where that was"
        " measured to pay",
    )

    affinity_weight: float | None = Field(
        None,
        ge=0,
        le=10,
        description="what it counts in auto that the tools make the user's words likelier, by nat;"
        " by default what was measured for the model, else 0",
    )

    reasoning_budget: int = Field(
        2048, ge=0, description="most tokens of reasoning before an answer; 0: no reasoning"
    )

    # Limits
    queue_length: int = Field(64, ge=1, description="requests that may wait; then 429")
    request_timeout_s: float = Field(
        0, ge=0, description="seconds a request may take in all; 0: no limit"
    )
    max_body_bytes: int = Field(8 << 20, ge=1024, description="largest request body; then 413")
    max_tools: int = Field(512, ge=1, description="most tools in one request")
    max_messages: int = Field(4096, ge=1, description="most messages in one request")
    max_grammar_chars: int = Field(
        64_000, ge=1, le=64_000, description="longest grammar of a custom tool, in characters"
    )
    max_depth: int = Field(64, ge=8, le=200, description="deepest nesting of a request's JSON")
    max_connections: int = Field(512, ge=1, description="most connections; then 503")
    client_timeout_s: float = Field(
        60, gt=0, description="seconds for a request to come in, and for an answer nobody reads"
    )
    shutdown_grace_s: float = Field(10, ge=0, description="seconds to finish answers at the end")

    # Responses that clients go on from
    responses_store: str = Field(
        "memory", description="where /v1/responses keeps them: memory, off, or path of a file"
    )
    responses_retention_days: float = Field(
        30, gt=0, le=36500, description="days that a response is kept after its last use"
    )
    responses_max_count: int = Field(10_000, ge=1, description="most responses that are kept")
    responses_max_bytes: int = Field(
        64 << 20, ge=1024, description="most bytes of responses that are kept"
    )

    # The address
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0: any free one")
    api_key: Names = Field(
        (), repr=False, description="accepted API keys; none: no key is asked for"
    )
    allow_open_network: bool = Field(
        False, description="listen beyond this machine although there is no API key"
    )
    cors_origin: Names = Field((), description="web origins that may call the server")
    allowed_host: Names = Field(
        (), description="further names of this machine, where clients give no key"
    )
    keep_alive_s: int = Field(120, ge=5, description="seconds an idle connection stays open")
    ping_s: float = Field(10, gt=0, description="seconds of silence before a stream's `: ping`")

    # What is written
    log_format: Literal["text", "json"] = Field("text", description="form of the log lines")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="log level")
    log_prompts: bool = Field(False, description="write prompts and answers to the log")


COMMA_LISTS = ("alias", "api_key", "cors_origin", "allowed_host")


def add_flags(parser: argparse.ArgumentParser, names: Iterable[str] | None = None) -> None:
    """Add a flag per setting; `names` limits them to those that a command uses."""
    for name in names or Settings.model_fields:
        _add_flag(parser, name, Settings.model_fields[name])


def _add_flag(parser: argparse.ArgumentParser, name: str, info: FieldInfo) -> None:
    default = info.get_default(call_default_factory=True, validated_data={})
    shown = ",".join(default) or "none" if isinstance(default, tuple) else default
    options: dict[str, Any] = {
        "dest": name,
        "default": argparse.SUPPRESS,
        "help": f"{info.description} (default: {shown}; {PREFIX}{name.upper()})".replace("%", "%%"),
    }
    flag = _flag(name)
    if _plain(info.annotation) is bool:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif typing.get_origin(info.annotation) is Literal:
        parser.add_argument(flag, choices=typing.get_args(info.annotation), **options)
    else:
        kind = {int: "N", float: "N", Path: "PATH"}.get(_plain(info.annotation), "TEXT")
        action = "append" if name in COMMA_LISTS else "store"
        parser.add_argument(flag, action=action, metavar=kind, **options)


def _plain(annotation: Any) -> Any:
    return annotation if not isinstance(annotation, types.UnionType) else annotation.__args__[0]


def load(flags: argparse.Namespace | None = None) -> Settings:
    """Settings from flags over the environment over defaults.

    Raises SetupError that names the flag and the variable of every value that will not do.
    """
    given = {
        name: value
        for name, value in vars(flags or argparse.Namespace()).items()
        if name in Settings.model_fields
    }
    for name in COMMA_LISTS:
        if name in given:
            given[name] = _items(given[name])
            if not given[name]:  # an empty key must not come to mean that no key is needed
                raise SetupError(f"{_flag(name)} is empty")
        elif raw := os.environ.get(PREFIX + name.upper()):
            given[name] = _items(raw)
    try:
        return Settings(**given)
    except ValidationError as exc:
        raise SetupError("; ".join(_complaint(error) for error in exc.errors())) from None


def _items(given: str | list[str]) -> tuple[str, ...]:
    """The items of comma lists: of one, or of each time that a flag was given."""
    parts = [given] if isinstance(given, str) else given
    return tuple(item for part in parts for piece in part.split(",") if (item := piece.strip()))


def _complaint(error: Any) -> str:
    name = str(error["loc"][0])
    value = json.dumps(error["input"], default=str)
    return f"{_flag(name)} ({PREFIX}{name.upper()}) is {value}: {error['msg'].lower()}"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
