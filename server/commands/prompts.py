"""`callwright prompts`: the templates, and the exact prompt of a request."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from models.catalog import load_catalog, resolve
from prompts.facts import ModelFacts
from prompts.gguf_facts import read_model_facts
from prompts.guard import GUARD
from prompts.select import NAMES, OWN_LISTINGS, OWN_TEMPLATES, choose
from server import config
from server.commands.help import examples
from server.errors import SetupError
from server.wire.chat import parse_chat_request
from server.wire.history import to_conversation

EPILOG = """\
examples:
  callwright prompts list
  callwright prompts show qwen2_5
  callwright prompts show native --model smollm2-135m-instruct
  callwright prompts render --model ~/models/my.gguf request.json
  callwright prompts render --template generic < request.json
"""

_NO_MODEL = ModelFacts("no model", chat_template=None, bos="", eos="", special_tokens=())


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `prompts` and its actions to the command's parser."""
    parser = subparsers.add_parser(
        "prompts",
        help="show the prompt templates, and the exact prompt of a request",
        description="The templates that turn a conversation into a prompt.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    action = actions.add_parser(
        "list", help="our own templates", epilog=examples("prompts list"), formatter_class=raw
    )
    action.set_defaults(run=run, run_action=run_list)

    action = actions.add_parser(
        "show",
        help="print the source of a template",
        epilog=examples("prompts show", "qwen2_5", "native --model smollm2-135m-instruct"),
        formatter_class=raw,
    )
    action.add_argument(
        "name", metavar="NAME", help="one of ours, or native: the one in the model's GGUF file"
    )
    config.add_flags(action, ["model", "models_dir"])
    action.set_defaults(run=run, run_action=run_show)

    action = actions.add_parser(
        "render",
        help="print the exact prompt of a request",
        description="Print the exact prompt of a chat-completions request. Only the header of the "
        "model's file is read; with --template and without --model, not even that.",
        epilog=examples(
            "prompts render",
            "--model ~/models/my.gguf request.json",
            "--template generic < request.json",
        ),
        formatter_class=raw,
    )
    action.add_argument(
        "request", metavar="REQUEST", nargs="?", default="-", help="a JSON file; -: standard input"
    )
    action.add_argument(
        "--template",
        metavar="NAME",
        help="auto, native, one of ours, or a Jinja file (default: as the server would choose)",
    )
    config.add_flags(action, ["model", "models_dir"])
    action.set_defaults(run=run, run_action=run_render)


def run(args: argparse.Namespace) -> int:
    """Run one action; returns the exit status."""
    args.run_action(args, config.load(args))
    return 0


def run_list(args: argparse.Namespace, settings: config.Settings) -> None:
    table = Table(box=None)
    for heading in ("Name", "Format", "For"):
        table.add_column(heading)
    for own in OWN_TEMPLATES.values():
        table.add_row(own.name, own.row.name, own.summary)
    for listing in OWN_LISTINGS.values():
        table.add_row(listing.name, listing.row.name, listing.summary)
    Console().print(table)


def run_show(args: argparse.Namespace, settings: config.Settings) -> None:
    own = OWN_TEMPLATES.get(args.name) or OWN_LISTINGS.get(args.name)
    if own is not None:
        sys.stdout.write(own.source)
        return
    if args.name != "native":
        raise SetupError(
            f"there is no template {args.name!r}",
            hint=f"the names are native, {', '.join(NAMES)}",
        )
    facts = _facts(settings)
    if facts.chat_template is None:
        raise SetupError(f"{facts.name} has no chat template of its own")
    print(facts.chat_template.removesuffix("\n"))


def run_render(args: argparse.Namespace, settings: config.Settings) -> None:
    request = parse_chat_request(_read(args.request), settings, settings.model)
    without_model = args.template is not None and "model" not in args
    facts = _NO_MODEL if without_model else _facts(settings)
    setting = args.template or request.prompt_template or settings.prompt_template
    renderer = choose(facts, setting)
    prompt = renderer.render(to_conversation(request), continue_final=request.continues_final)
    print(
        f"template {renderer.template_name}, format {renderer.row.name}, for {facts.name}",
        file=sys.stderr,
    )
    # Without the guards, as the tokenizer reads it.
    sys.stdout.write(prompt.replace(GUARD, ""))
    if sys.stdout.isatty():
        print()


def _facts(settings: config.Settings) -> ModelFacts:
    model = resolve(settings.model, settings.models_dir, load_catalog())
    if not model.path.is_file():
        raise SetupError(
            f"{model.name} is not in {settings.models_dir}",
            hint=f"fetch it with `callwright models pull {model.name}`, or give --template",
        )
    return read_model_facts(model.path)


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as exc:
        raise SetupError(f"cannot read {name}: {exc.strerror}") from None
