"""The model of a command that runs one in this process: its file, its memory, its parts."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from models.catalog import LocalModel, load_catalog, resolve
from models.fetch import fetch
from models.gguf import estimate_memory, read_facts
from models.memory import available_memory
from models.progress import progress_on
from server.commands.signals import held_back
from server.config import Settings
from server.errors import SetupError

if TYPE_CHECKING:
    from server.parts import Parts

GIB = 1 << 30
BYTES_PER_ELEMENT = {"f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}  # of the KV cache, with scales


def load_parts(settings: Settings, console: Console) -> Parts:
    """Fetch the model if need be, look at file and memory, load it. Raises SetupError."""
    model = local_model(settings, console)
    check_memory(model.path, settings)
    with console.status(f"loading {model.name}"), held_back() as interrupted:
        # llama.cpp and Outlines take a second to import.
        from server.assemble import assemble
        from server.engine.runner import LoadCancelled

        with contextlib.suppress(LoadCancelled):
            return assemble(settings, model, goes_on=lambda: not interrupted())
    raise AssertionError("the signal that cancelled the load ends the command")


def local_model(settings: Settings, console: Console) -> LocalModel:
    """The model's file, fetched if need be, and looked at."""
    model = resolve(settings.model, settings.models_dir, load_catalog())
    if model.entry is not None:
        fetch(
            model.entry,
            settings.models_dir,
            offline=settings.offline,
            progress=progress_on(console),
        )
    read_facts(model.path)
    return model


def check_memory(path: Path, settings: Settings) -> None:
    """Raise SetupError if the model cannot fit into what is free."""
    needed, free = memory_needed(path, settings), available_memory()
    if free is not None and needed > free:
        raise SetupError(
            f"the model needs about {needed / GIB:.1f} GiB of memory, {free / GIB:.1f} are free",
            hint="Give a smaller --context-length or --model, or end other programs.",
        )


def memory_needed(path: Path, settings: Settings) -> int:
    """Bytes that serving the model takes with these settings."""
    size = BYTES_PER_ELEMENT[settings.kv_cache_type]
    return estimate_memory(path, settings.context_length, size, settings.host_cache_tokens)
