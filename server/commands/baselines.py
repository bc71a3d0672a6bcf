"""`callwright bench keep | check`: stored results, and whether a change made them worse."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from models.catalog import load_catalog
from server import config
from server.commands.arms import add_answers, add_asking, ask_all, check_datasets, read_datasets
from server.commands.help import examples
from server.errors import SetupError

if TYPE_CHECKING:
    from prompts.bench.baselines import Held

KEEP_TEXT = """\
Store the results of a run, a small file for each model, for `callwright bench check`. Give the
--dataset of the run; --tool-choice and --max-tokens too if its rows are of an earlier version.
"""
CHECK_TEXT = """\
Ask the cases of a model's stored baseline again, and compare row by row (McNemar's test). Returns 1
if a template has become significantly worse, or if nothing could be compared. With a URL a running
server is asked.
"""


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions to those of `bench`."""
    keep = actions.add_parser(
        "keep", help="store a run as the baseline", description=KEEP_TEXT,
        epilog=examples("bench keep", "run1 --dataset bfcl:simple_python"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    keep.add_argument("out", type=Path, metavar="RUN", help="folder or results.jsonl of the run")
    keep.add_argument("--dataset", nargs="+", required=True, metavar="SET")
    add_answers(keep)
    keep.set_defaults(tool_choice=None, max_tokens=None)
    keep.set_defaults(run=run_keep)

    check = actions.add_parser(
        "check", help="whether a change made tool calls worse", description=CHECK_TEXT,
        epilog=examples("bench check", "", "--template native"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_asking(check)
    check.add_argument(
        "--template", nargs="+", metavar="NAME", help="only these (default: all in the baseline)"
    )
    check.add_argument("--out", type=Path, metavar="DIR",
                       help="keep the results there; the same command goes on where it ended, so"
                       " give another one after a change")  # fmt: skip
    check.set_defaults(run=run_check)
    for parser in (keep, check):
        parser.add_argument(
            "--baselines", type=Path, metavar="DIR", help="folder of the baselines (default: ours)"
        )


def run_keep(args: argparse.Namespace) -> int:
    """Returns 0. Raises SetupError."""
    from prompts.bench.baselines import SHIPPED, baselines_of, write
    from prompts.bench.results import read_rows

    rows = [
        replace(row, arm=replace(row.arm, model=_stored_name(row.arm.model)))
        for row in read_rows(args.out)
    ]
    made = baselines_of(
        list({row.key: row for row in rows}.values()),  # an alias and its model may both be there
        tool_choice=args.tool_choice, max_tokens=args.max_tokens, datasets=args.dataset,
    )  # fmt: skip
    if not made:
        raise SetupError(f"{args.out} has no answers to store")
    check_datasets(args.dataset)
    for one in made:
        print(write(args.baselines or SHIPPED, one))
    return 0


def _stored_name(model: str) -> str:
    """The name in the catalog of what may be an alias, else the model's own."""
    entry = load_catalog().find(model)
    return entry.name if entry else model


def run_check(args: argparse.Namespace) -> int:
    """Returns 1 if something has become significantly worse, or was not answered at all.

    Raises SetupError.
    """
    models = dict.fromkeys(args.models or [config.load(args).model])
    worse = [model for model in models if not _check(args, model)]
    return 1 if worse else 0


def _check(args: argparse.Namespace, wanted: str) -> bool:
    """Whether nothing has become worse."""
    from prompts.bench.baselines import SHIPPED, against, read
    from prompts.bench.run import RESULTS

    is_path = args.url is None and load_catalog().find(wanted) is None
    model = Path(wanted).stem if is_path else _stored_name(wanted)
    baseline = read(args.baselines or SHIPPED, model)
    templates = [one for one in baseline.templates if one in (args.template or baseline.templates)]
    if not templates:
        raise SetupError(f"the baseline of {model} has none of these templates",
                         hint=f"It has {', '.join(baseline.templates)}.")  # fmt: skip
    asked = argparse.Namespace(**vars(args))
    asked.models, asked.template = [wanted], templates
    asked.tool_choice, asked.max_tokens = baseline.tool_choice, baseline.max_tokens
    everything = read_datasets(config.load(args), baseline.datasets)
    cases = [one for one in everything if baseline.has(one)]
    if not cases:
        raise SetupError(f"the data sets have none of the cases in the baseline of {model}")
    with ExitStack() as stack:
        folder = args.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        outcome = ask_all(asked, cases, folder / RESULTS)
    if outcome.problem:
        print(outcome.problem, file=sys.stderr)
    found = against(baseline, cases, outcome.rows)
    bad = [name for name in templates if not _tell(model, name, found[name])]
    return not bad


def _tell(model: str, template: str, held: Held) -> bool:
    """A line of the result, on stderr unless it is good; whether it is."""
    found = held.difference
    worse = found.is_shown and found.value < 0
    verdict = found.verdict.replace("A is", "the baseline is").replace("B is", "this is now")
    if not found.rows:
        verdict = "nothing was compared"
    parts = [f"{'worse: ' if worse else ''}{model} / {template}: {verdict}"]
    if held.unanswered:
        parts.append(f"{held.unanswered} rows of the baseline got no answer")
    if held.changed:
        parts.append(f"{held.changed} were left out, as their cases have changed or are gone")
    good = not worse and found.rows > 0
    print("; ".join(parts), file=sys.stdout if good else sys.stderr)
    return good
