"""`callwright doctor`: whether this machine can serve, and what to do where it cannot."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from server import config

if TYPE_CHECKING:
    from server.commands.examine import Row

EPILOG = """\
ok: fine; note: works, but read it; problem: `callwright serve` would not work. The exit status is 1
if there is a problem. Give the flags that you serve with, to have them looked at too.

examples:
  callwright doctor
  callwright doctor --model ~/models/my.gguf --context-length 32768
  callwright doctor --offline --json
"""

SETTINGS = (
    "model", "models_dir", "offline", "context_length", "threads", "gpu_layers", "host", "port",
    "api_key", "allow_open_network",
)  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `doctor` to the command's parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="check this machine, and say what to do about each problem",
        description="Check whether this machine can serve the model, and what would make it"
        " faster.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    config.add_flags(parser, SETTINGS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look at everything and show it; returns 1 if there is a problem, else 0."""
    # Imported late: the help of all commands comes at once because of it.
    from server.commands.examine import examine

    settings = config.load(args)
    with Console(stderr=True).status("looking at this machine"):
        rows = examine(settings)
    problems = sum(row.finding.state == "problem" for row in rows)
    if args.json:
        findings = [{"what": row.what, **asdict(row.finding)} for row in rows]
        print(json.dumps({"problems": problems, "findings": findings}, indent=2))
    else:
        show(rows, Console())
    return 1 if problems else 0


STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}


def show(rows: list[Row], console: Console) -> None:
    """A line for each finding with what to do below it, and a last line with the sum of it."""
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        finding = row.finding
        said = Text(finding.found)
        if finding.advice:
            said.append(f"\n{finding.advice}", "cyan")
        table.add_row(Text(finding.state, STYLES[finding.state]), row.what, said)
    console.print(table)
    problems = [row.what for row in rows if row.finding.state == "problem"]
    if problems:
        console.print(f"Problems: {', '.join(problems)}. `callwright serve` will not work.")
    else:
        console.print("Nothing keeps `callwright serve` from working.")
