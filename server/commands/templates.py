"""`callwright bench templates` and its relatives: which prompt makes a model call tools best."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from prompts.bench.bfcl import CATEGORIES
from server import config
from server.commands import baselines
from server.commands.arms import add_answers, add_asking, add_rows, ask_all, read_datasets
from server.commands.help import examples
from server.commands.measuring import positive
from server.errors import SetupError

if TYPE_CHECKING:
    from prompts.bench.cases import Case
    from prompts.bench.results import Row

TEXT = """\
Ask the cases of data sets with each template and model, and judge the answers. With a URL a running
server is asked; without one, this server is started on loopback for each model, and reads each
prompt anew, so that times do not depend on which template was asked first. Answers are
appended to results.jsonl in the folder --out: the same command goes on where an earlier run ended,
and asks again what has changed since. At the end report.html is written there, and a line of JSON
to standard output, of what was asked for now. Returns 1 if every request failed.
"""
EPILOG = """\
data sets:
  bfcl:CATEGORY   of the Berkeley Function Calling Leaderboard, fetched once from the package index:
                  {categories}
  PATH            a YAML or JSONL file, or a folder of them; see `callwright bench init`

examples:
  callwright bench templates --template native generic --dataset bfcl:simple_python --sample 100
  callwright bench templates http://127.0.0.1:8080 --dataset cases/ --out run1
  callwright bench templates --template table_en table_zh --variant plain distractors-20
  callwright bench templates --baseline --dataset bfcl:multiple bfcl:irrelevance --sample 50
  callwright bench templates --dataset bfcl:simple_python --rows 100 --skip 100
"""
DEFAULT_DATASETS = ("bfcl:simple_python", "bfcl:multiple", "bfcl:parallel", "bfcl:irrelevance")


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions to those of `bench`."""
    raw = argparse.RawDescriptionHelpFormatter
    run = actions.add_parser(
        "templates", help="how well models call tools with each prompt template", description=TEXT,
        epilog=EPILOG.format(categories="\n                  ".join(CATEGORIES)),
        formatter_class=raw,
    )  # fmt: skip
    add_asking(run)
    add_answers(run)
    run.add_argument(
        "--template",
        nargs="+",
        default=["default"],
        metavar="NAME",
        help="native, or one of ours (`callwright prompts list`); table_en, table_zh, json_en and"
        " json_zh differ in layout and language only (default: what the server uses)",
    )
    run.add_argument("--dataset", nargs="+", default=list(DEFAULT_DATASETS), metavar="SET",
                     help=f"see below (default: {' '.join(DEFAULT_DATASETS)})")  # fmt: skip
    run.add_argument(
        "--variant", nargs="+", default=["plain"], metavar="NAME",
        help="what is changed about the tools: no-descriptions, no-examples, shuffled,"
        " distractors-20, or several joined by + (default: plain)",
    )  # fmt: skip
    add_rows(run, rows=None, skip=0)
    run.add_argument(
        "--sample", type=positive, metavar="N", help="so many of these, drawn from all categories"
    )
    run.add_argument("--seed", type=int, default=1, metavar="S", help="draws another sample")
    run.add_argument(
        "--baseline",
        action="store_true",
        help="also the same prompts without the constraint; this server only",
    )
    run.add_argument("--out", type=Path, default=Path("bench-templates"), metavar="DIR",
                     help="folder of the results (default: %(default)s)")  # fmt: skip
    run.set_defaults(run=run_templates)

    both = actions.add_parser(
        "compare", help="two runs, case by case",
        epilog=examples("bench compare", "run1 run2", "run1/results.jsonl run2 --wish 2"),
        formatter_class=raw,
    )  # fmt: skip
    both.add_argument("a", type=Path, metavar="A", help="folder or results.jsonl of a run")
    both.add_argument("b", type=Path, metavar="B", help="of the other one")
    both.add_argument(
        "--wish", type=float, default=5.0, metavar="POINTS",
        help="difference that you would want to see, in points of a hundred (default: 5)",
    )  # fmt: skip
    both.set_defaults(run=run_compare)

    init = actions.add_parser(
        "init", help="write an example of cases of your own",
        epilog=examples("bench init", "cases"), formatter_class=raw,
    )  # fmt: skip
    init.add_argument("folder", type=Path, metavar="DIR")
    init.set_defaults(run=run_init)

    add_verify(actions, "bench verify")
    baselines.add_actions(actions)


def add_verify(actions: argparse._SubParsersAction[argparse.ArgumentParser], command: str) -> None:
    """Add `verify`, which `callwright bench` has and `callwright tools` too."""
    verify = actions.add_parser(
        "verify", help="fail if a tool has fewer than five phrasings, or one of them fails",
        epilog=examples(command, "cases/weather.yaml", "cases/ --url http://127.0.0.1:8080"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    verify.add_argument("cases", type=Path, metavar="FILE", help="a file or folder of cases")
    add_asking(verify, "--url")
    add_answers(verify)
    verify.set_defaults(run=run_verify)


def run_templates(args: argparse.Namespace) -> int:
    """Run what is left to do, then write the report. Returns 1 if no request was answered.

    Raises SetupError.
    """
    from prompts.bench.report import page
    from prompts.bench.run import RESULTS
    from prompts.bench.sampling import sample
    from prompts.bench.summary import summarise, to_json
    from prompts.bench.variants import PLAIN, check_variant, vary

    for variant in args.variant:
        check_variant(variant)
    everything = read_datasets(config.load(args), args.dataset)
    cases = _chosen(args, everything)
    if args.sample is not None:
        cases = sample(cases, args.sample, args.seed)
    for variant in args.variant:
        varied = [vary(one, variant, everything) for one in cases]
        if variant != PLAIN and varied == cases:
            raise SetupError(f"the variant {variant} changes none of these cases")
    outcome = ask_all(args, cases, args.out / RESULTS, everything)
    rows = outcome.rows
    report = args.out / "report.html"
    report.write_text(page(rows, "Prompt templates"), "utf-8")
    _show(rows)
    print(json.dumps({"report": str(report), "arms": to_json(summarise(rows))}, ensure_ascii=False))
    if outcome.problem:
        print(outcome.problem, file=sys.stderr)
    return 1 if outcome.is_failure else 0


def cases_of(args: argparse.Namespace) -> list[Case]:
    """Those of the data sets and rows that were named. Raises SetupError."""
    return _chosen(args, read_datasets(config.load(args), args.dataset))


def _chosen(args: argparse.Namespace, everything: Sequence[Case]) -> list[Case]:
    from prompts.bench.sampling import rows_of

    cases = rows_of(everything, args.skip, args.rows)
    if not cases:
        raise SetupError(f"--skip {args.skip} leaves no case")
    return cases


def _show(rows: Sequence[Row]) -> None:
    from rich.table import Table

    from prompts.bench.summary import pairs, summarise

    table = Table("Arm", "Right", "95 %", "Names", "Schema", "Time", "Errors", box=None)
    for one in summarise(rows):
        time = "–" if one.wall_s is None else f"{one.wall_s:.2f} s"
        table.add_row(
            escape(one.arm.name), f"{one.right.right} of {one.right.count}",
            f"{one.right.low:.1%}–{one.right.high:.1%}", f"{one.names.value:.1%}",
            f"{one.valid_schema.value:.1%}", time, str(one.errors),
        )  # fmt: skip
    console = Console()
    console.print(table)
    for a, b, found in pairs(rows):
        console.print(f"A: {a.name}, B: {b.name}: {found.verdict}", markup=False, highlight=False)


def run_compare(args: argparse.Namespace) -> int:
    """Each arm of A against the same arm of B, or the only one against the only one."""
    from prompts.bench.results import answered, arms_of, changed_cases, compare, read_rows
    from prompts.bench.statistics import rows_needed

    if not 0 < args.wish <= 100:
        raise SetupError(f"--wish {args.wish:g} is not a number of points from 0 to 100")

    a, b = read_rows(args.a), read_rows(args.b)
    arms = [(one, one) for one in arms_of(a) if one in arms_of(b)]
    if len(arms_of(a)) == len(arms_of(b)) == 1:
        arms = [(arms_of(a)[0], arms_of(b)[0])]
    if not arms:
        raise SetupError("the runs have no model and template in common")
    for one, other in arms:
        of_a = [row for row in a if row.arm == one]
        of_b = [row for row in b if row.arm == other]
        found = compare(of_a, of_b)
        name = one.name if one == other else f"A: {one.name}, B: {other.name}"
        print(f"{name}: {found.verdict}")
        for run, rows in (("A", of_a), ("B", of_b)):
            if errors := len(rows) - len(list(answered(rows))):
                print(f"  {errors} rows of {run} are errors, and left out")
        if changed := changed_cases(of_a, of_b):
            print(f"  {changed} cases have changed between the runs, and are left out")
        if not found.is_shown and found.rows:
            discordant = (found.only_a + found.only_b) / found.rows
            needed = rows_needed(args.wish / 100, discordant)
            print(f"  a difference of {args.wish:g} points needs about {needed} cases to be shown")
    return 0


def run_init(args: argparse.Namespace) -> int:
    from prompts.bench.own_cases import write_example

    print(write_example(args.folder))
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Returns 1 if a tool has too few phrasings, or an answer is not right. Raises SetupError."""
    import tempfile

    from prompts.bench.own_cases import LEAST_PHRASINGS, read_cases, too_few_phrasings

    cases = read_cases(args.cases)
    few = too_few_phrasings(cases)
    for name, count in few.items():
        print(f"{name}: {count} phrasings, at least {LEAST_PHRASINGS} are needed")
    with tempfile.TemporaryDirectory() as folder:
        rows = ask_all(args, cases, Path(folder) / "results.jsonl").rows
    wrong = [row for row in rows if row.answer.error or not row.marks.right]
    for row in wrong:
        print(f"{row.case}: {row.question}\n  {row.answer.error or row.marks.detail}")
    print(f"{len(rows) - len(wrong)} of {len(rows)} phrasings pass")
    return 1 if few or wrong else 0
