"""`callwright models`: list, pull, info, verify, rm, path."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from models import fetch
from models.catalog import Catalog, CatalogEntry, LocalModel, load_catalog, resolve
from models.gguf import GGUFFacts, read_facts
from models.memory import available_memory
from models.partial import PartialFile
from models.progress import human_bytes, progress_on
from models.sources import describe
from prompts.gguf_facts import read_model_facts
from prompts.select import choose
from prompts.traits import TemplateTraits
from server import config
from server.commands.help import examples
from server.errors import SetupError

EXAMPLES = """\
examples:
  callwright models pull smollm2-135m-instruct
  callwright models info qwen2.5-coder-0.5b-instruct
  callwright serve --model "$(callwright models path smollm2-135m-instruct)"
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `models` and its actions to the command's parser."""
    parser = subparsers.add_parser(
        "models",
        help="list, fetch and check model files",
        description="The models that are known by name, and their files on this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    small = "smollm2-135m-instruct"
    for name, run_action, help_text, ways in (
        ("list", run_list, "all names, and which files are here", ("", "--json")),
        ("pull", run_pull, "fetch a model, or go on with a fetch that was cut", (small,)),
        ("info", run_info, "what is known of a model, and the memory that it needs",
         (small, "~/models/my.gguf --json")),
        ("verify", run_verify, "compare the SHA-256 of one file, or of all that are here",
         ("", small)),
        ("rm", run_rm, "remove a model's file", (small,)),
        ("path", run_path, "print the path of a model's file", (small,)),
    ):  # fmt: skip
        action = actions.add_parser(
            name,
            help=help_text,
            description=help_text.capitalize() + ".",
            epilog=examples(f"models {name}", *ways),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name != "list":
            action.add_argument(
                "name",
                metavar="NAME",
                nargs="?" if name == "verify" else None,
                help="a name or alias from `callwright models list`"
                + ("; without it, all files" if name == "verify" else "")
                + (", or the path of a GGUF file" if name in ("info", "path") else ""),
            )
        if name in ("list", "info"):
            action.add_argument("--json", action="store_true", help="print JSON")
        config.add_flags(action, ["models_dir", "offline"] if name == "pull" else ["models_dir"])
        action.set_defaults(run=run, run_action=run_action)


def run(args: argparse.Namespace) -> int:
    """Run one action; returns the exit status."""
    settings = config.load(args)
    status: int = args.run_action(args, settings, load_catalog())
    return status


def run_list(args: argparse.Namespace, settings: config.Settings, catalog: Catalog) -> int:
    here = settings.models_dir
    if args.json:
        _print_json([_catalog_facts(entry, here) for entry in catalog.models])
        return 0
    table = Table(caption=f"* default; files in {here}", caption_justify="left", box=None)
    for heading in ("Name", "Size", "Context", "Licence", "Here"):
        table.add_column(heading, justify="right" if heading in ("Size", "Context") else "left")
    for entry in catalog.models:
        name = escape(entry.name) + (" *" if entry.default else "")
        context = f"{entry.context_length:,}"
        table.add_row(name, fetch.size_line(entry), context, entry.licence, _state(entry, here))
    for path in _uncatalogued(catalog, here):
        table.add_row(escape(str(path)), human_bytes(path.stat().st_size), "", "", "your own file")
    Console().print(table)
    return 0


def run_pull(args: argparse.Namespace, settings: config.Settings, catalog: Catalog) -> int:
    entry = _entry(args.name, settings.models_dir, catalog)
    progress = progress_on(Console(stderr=True))
    path = fetch.fetch(entry, settings.models_dir, offline=settings.offline, progress=progress)
    print(path)
    return 0


def run_info(args: argparse.Namespace, settings: config.Settings, catalog: Catalog) -> int:
    model = resolve(args.name, settings.models_dir, catalog)
    facts = read_facts(model.path) if model.path.is_file() else None
    shown = _info(model, facts, settings.models_dir)
    if args.json:
        _print_json(shown)
        return 0
    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in _rows(shown):
        table.add_row(key, escape(value))
    Console().print(table)
    return 0


def run_verify(args: argparse.Namespace, settings: config.Settings, catalog: Catalog) -> int:
    here = settings.models_dir
    progress = progress_on(Console(stderr=True))
    if args.name is not None:
        chosen = [_entry(args.name, here, catalog)]
    else:
        chosen = [entry for entry in catalog.models if entry.path(here).is_file()]
    verdicts = {}
    for entry in chosen:
        verdicts[entry.name] = fetch.verify(entry, here, progress)
        print(f"{entry.name}: {_verdict_line(verdicts[entry.name], entry, here)}")
    if not chosen:
        print(f"no model files in {here}")
    bad = (fetch.Verdict.WRONG, fetch.Verdict.MISSING)
    return 1 if any(verdict in bad for verdict in verdicts.values()) else 0


def run_rm(args: argparse.Namespace, settings: config.Settings, catalog: Catalog) -> int:
    entry = _entry(args.name, settings.models_dir, catalog)
    freed = fetch.remove(entry, settings.models_dir)
    print(f"removed {entry.name}, {human_bytes(freed)}" if freed else f"{entry.name} was not here")
    return 0


def run_path(args: argparse.Namespace, settings: config.Settings, catalog: Catalog) -> int:
    model = resolve(args.name, settings.models_dir, catalog)
    if not model.path.is_file():
        raise _not_here(model.name, settings.models_dir)
    print(model.path)
    return 0


def _entry(name: str, models_dir: Path, catalog: Catalog) -> CatalogEntry:
    """The catalog's entry; raises SetupError for an unknown name and for a user's own file."""
    model = resolve(name, models_dir, catalog)
    if model.entry is None:
        raise SetupError(
            f"{model.path} is a file of your own, not of the catalog",
            hint="`callwright models info PATH` checks its header",
        )
    return model.entry


def _not_here(name: str, models_dir: Path) -> SetupError:
    return SetupError(
        f"{name} is not in {models_dir}", hint=f"fetch it with `callwright models pull {name}`"
    )


def _state(entry: CatalogEntry, models_dir: Path) -> str:
    if entry.is_present(models_dir):
        return "yes"
    if entry.path(models_dir).is_file():
        return "wrong size"
    begun = PartialFile(entry.path(models_dir)).size
    return f"{begun / max(entry.expected_size, 1):.0%} fetched" if begun else ""


def _uncatalogued(catalog: Catalog, models_dir: Path) -> list[Path]:
    known = {entry.file for entry in catalog.models}
    return sorted(path for path in models_dir.glob("*.gguf") if path.name not in known)


def _catalog_facts(entry: CatalogEntry, models_dir: Path) -> dict[str, Any]:
    return {
        "name": entry.name,
        "aliases": list(entry.aliases),
        "description": entry.description,
        "licence": entry.licence,
        "file": entry.file,
        "size_bytes": entry.size,
        "approximate_size_bytes": entry.expected_size,
        "sha256": fetch.known_hash(entry, models_dir),
        "context_length": entry.context_length,
        "prompt_template": entry.prompt_template,
        "tool_call_bias": dict(entry.tool_call_bias),
        "more_calls_bias": dict(entry.more_calls_bias),
        "fit_question": list(entry.fit_question),
        "affinity_weight": dict(entry.affinity_weight),
        "default": entry.default,
        "sources": [describe(source) for source in entry.sources],
        "path": str(entry.path(models_dir)),
        "present": entry.is_present(models_dir),
    }


def _info(model: LocalModel, facts: GGUFFacts | None, models_dir: Path) -> dict[str, Any]:
    if model.entry is not None:
        shown = _catalog_facts(model.entry, models_dir)
    else:
        shown = {"name": model.name, "path": str(model.path), "present": True}
    if facts is not None:
        shown |= {
            "size_bytes": facts.file_bytes,
            "context_length": facts.context_length,
            "architecture": facts.architecture,
            "title": facts.name,
            "quantisation": facts.quantisation,
            "parameter_count": facts.parameter_count,
            "layers": facts.block_count,
            "own_chat_template": facts.chat_template is not None,
            **_prompt_facts(model, shown),
            "needs_memory_bytes": facts.memory_bytes(),
            "needs_memory_for_tokens": facts.default_context_length,
            "available_memory_bytes": available_memory(),
        }
    return shown


def _prompt_facts(model: LocalModel, shown: dict[str, Any]) -> dict[str, Any]:
    """How prompts are made for the model, as a server without settings would choose."""
    setting = model.entry.prompt_template if model.entry is not None else None
    renderer = choose(read_model_facts(model.path), setting or "auto")
    differs = {
        name: value
        for name, value in asdict(renderer.traits).items()
        if value != getattr(TemplateTraits(), name)
    }
    return {
        "chosen_template": renderer.template_name,
        "call_format": renderer.row.name,
        "call_notation": type(renderer.row.args).__name__.lower(),
        "message_shape": [f"{name}: {value}" for name, value in differs.items()],
    }


def _rows(shown: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The same for a person: without what is not known, and the memory in one line."""
    memory = {key: value for key, value in shown.items() if "memory" in key}
    for key, value in shown.items():
        said_twice = key == "approximate_size_bytes" and shown["size_bytes"] is not None
        if value not in (None, [], {}, "") and key not in memory and not said_twice:
            yield key.removesuffix("_bytes").replace("_", " "), _readable(key, value)
    if memory:
        need = human_bytes(memory["needs_memory_bytes"])
        tokens, free = memory["needs_memory_for_tokens"], memory["available_memory_bytes"]
        there = "" if free is None else f"; {human_bytes(free)} are available"
        yield "memory", f"about {need} with {tokens:,} tokens of context{there}"


def _readable(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "\n".join(value)
    if isinstance(value, dict):
        return "\n".join(f"{name}: {one}" for name, one in value.items())
    if key.endswith("_bytes"):
        return human_bytes(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _verdict_line(verdict: fetch.Verdict, entry: CatalogEntry, models_dir: Path) -> str:
    pull = f"`callwright models pull {entry.name}`"
    return {
        fetch.Verdict.RIGHT: "right",
        fetch.Verdict.WRONG: f"WRONG: {entry.path(models_dir)} is not the file it should be; "
        f"remove it with `callwright models rm {entry.name}`, then {pull}",
        fetch.Verdict.UNKNOWN: "no SHA-256 is known to compare with",
        fetch.Verdict.MISSING: f"not in {models_dir}; fetch it with {pull}",
    }[verdict]


def _print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
