"""`callwright chat`: try a model on the terminal, with tools, without writing code."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from server import config, logs
from server.errors import SetupError

if TYPE_CHECKING:
    from server.commands.endpoint import Endpoint

EPILOG = """\
Without a question, and with a terminal, a conversation begins. You are asked for the result of each
call; /reset forgets everything, /quit or Ctrl-D ends, Ctrl-C cancels an answer. Without a terminal
the question is read from standard input.

tools.json is a list of OpenAI tools, one tool, or bare functions:
  {"name": "get_weather", "description": "Weather of a city now", "parameters": {"type": "object",
   "properties": {"city": {"type": "string"}}, "required": ["city"]}}

examples:
  callwright chat "What is the weather in Porto?" --tools tools.json
  callwright chat "What is the weather in Porto?" --tools tools.json --tool-choice required --json
  callwright chat --tools tools.json --system "Answer in one sentence."
  callwright chat --model smollm2-135m-instruct "Say hello."
  callwright chat --url http://127.0.0.1:8080 "Say hello."
"""

SETTINGS = (
    "model", "models_dir", "offline", "prompt_template", "context_length", "threads", "gpu_layers",
    "flash_attention", "kv_cache_type", "temperature",
)  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `chat` to the command's parser."""
    parser = subparsers.add_parser(
        "chat",
        help="ask a model one question, or talk to it, with tools from a file",
        description="Ask a model one question, or talk to it, with tools from a JSON file.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("question", nargs="*", metavar="QUESTION", help="what to ask")
    parser.add_argument("--tools", type=Path, metavar="FILE", help="JSON file with tools")
    parser.add_argument(
        "--tool-choice",
        metavar="CHOICE",
        help="auto, required, none, or the name of a tool (default: auto). It is for answers to"
        " questions: after the result of a call the model is free",
    )
    parser.add_argument("--system", metavar="TEXT", help="system message")
    parser.add_argument(
        "--max-tokens", type=_positive, metavar="N", help="most tokens of an answer"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the answer's message as JSON when complete"
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="ask this running OpenAI-compatible server instead of loading a model; its first"
        " model, unless --model names another",
    )
    parser.add_argument(
        "--api-key",
        default=argparse.SUPPRESS,
        metavar="KEY",
        help=f"API key for --url ({config.PREFIX}API_KEY)",
    )
    config.add_flags(parser, SETTINGS)
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Ask and show; returns the exit status. Raises CallwrightError."""
    # Imported late: the help of all commands comes at once because of it.
    from server.commands.conversation import Conversation, Options, ask
    from server.commands.screen import Screen
    from server.commands.tools_file import read_choice, read_tools

    settings = config.load(args)
    logs.configure(settings.log_format, _log_level(settings))
    question = _question(args)
    tools = read_tools(args.tools, settings) if args.tools else []
    options = Options(
        tools=tools,
        choice=read_choice(args.tool_choice, tools, settings),
        temperature=settings.temperature,
        max_tokens=args.max_tokens,
    )
    opening = [] if args.system is None else [_message("system", args.system)]
    screen = Screen(Console(), Console(stderr=True))
    with _endpoint(args, settings) as endpoint:
        if question is None:
            Conversation(endpoint, options, opening, screen=screen, read=_read_line).run()
            return 0
        request = options.request([*opening, _message("user", question)], options.choice)
        try:
            show = screen.show if not args.json else lambda _: None
            reply = asyncio.run(ask(endpoint, request, show))
        finally:
            screen.end_line()
        if args.json:
            print(json.dumps(reply.message, indent=2, ensure_ascii=False))
        screen.summary(reply.done, reply.seconds)
    return 0


def _question(args: argparse.Namespace) -> str | None:
    """From the command line or a pipe; None where a conversation is meant."""
    if args.question:
        question = " ".join(args.question)
    elif sys.stdin.isatty():
        if args.json:
            raise SetupError("--json needs a question")
        return None
    else:
        question = sys.stdin.read()
    if not question.strip():
        raise SetupError("the question is empty", hint="`callwright chat --help` has examples.")
    return question.strip()


def _message(role: str, text: str) -> dict[str, str]:
    # The command line may hold bytes that are no UTF-8.
    return {
        "role": role,
        "content": text.encode("utf-8", "surrogateescape").decode(errors="replace"),
    }


def _log_level(settings: config.Settings) -> str:
    """Lines about loading a model would stand in the conversation, unless they were asked for."""
    return settings.log_level if "log_level" in settings.model_fields_set else "error"


@contextlib.contextmanager
def _endpoint(args: argparse.Namespace, settings: config.Settings) -> Iterator[Endpoint]:
    if args.url is not None:
        from server.commands.remote import Remote

        key = settings.api_key[0] if settings.api_key else None
        yield Remote(args.url, key, getattr(args, "model", None))
        return
    from server.commands.endpoint import in_process

    with in_process(settings, Console(stderr=True)) as endpoint:
        yield endpoint


def _read_line(prompt: str) -> str:
    """A line from the terminal, with its editing and history where Python has them."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401
    try:
        if sys.stdout.isatty():
            return input(prompt)
        print(prompt, end="", file=sys.stderr, flush=True)
        return input()
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)  # the cursor is still behind the prompt
        raise
