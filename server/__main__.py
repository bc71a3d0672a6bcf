"""The command `callwright`: one sub-command per file in `server/commands`.

An error that a user can act on is one or two lines on stderr and exit status 1, never a traceback.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from server.errors import CallwrightError, SetupError

try:
    from server.commands import bench, chat, doctor, models, prompts, serve, tools
except KeyboardInterrupt:  # half a second in which a user may change their mind
    sys.exit(130)

COMMANDS = (serve, chat, models, prompts, tools, bench, doctor)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="callwright",
        description="A local server whose tool calls always parse and always satisfy their schema.",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know all characters
    try:
        args = build_parser().parse_args(argv)
        status: int = args.run(args)
    except SetupError as exc:
        print(f"callwright: {exc.message}", file=sys.stderr)
        if exc.hint:
            print(f"  {exc.hint}", file=sys.stderr)
        return 1
    except CallwrightError as exc:
        print(f"callwright: {exc.message}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except OSError as exc:  # a file or a folder of which nobody knew more to say
        where = f"{exc.filename}: " if exc.filename else ""
        print(f"callwright: {where}{exc.strerror or exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
