"""`callwright tools`: check tools before they are used."""

from __future__ import annotations

import argparse

from server.commands import templates

EPILOG = """\
examples:
  callwright bench init cases
  callwright tools verify cases/weather.yaml
  callwright tools verify cases/ --url http://127.0.0.1:8080
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `tools` and its actions to the command's parser."""
    parser = subparsers.add_parser(
        "tools",
        help="check that a model calls your tools as you expect",
        description="Check that a model calls your tools as you expect.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    templates.add_verify(actions, "tools verify")
