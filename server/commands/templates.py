"""`callwright bench templates` and its relatives: which prompt makes a model call tools best."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from prompts.bench.bfcl import CATEGORIES
from server import config
from server.commands.measuring import positive, progress
from server.errors import SetupError

if TYPE_CHECKING:
    from prompts.bench.cases import Case
    from prompts.bench.results import Arm, Row
    from server.bench.session import Watcher

TEXT = """\
Ask the cases of data sets with each template and model, and judge the answers. With a URL a running
server is asked; without one, this server is started on loopback for each model, and reads each
prompt anew, so that times do not depend on which template was asked first. Answers are
appended to results.jsonl in the folder --out: the same command goes on where an earlier run ended.
At the end report.html is written there, and a line of JSON to standard output.
"""
EPILOG = """\
data sets:
  bfcl:CATEGORY   of the Berkeley Function Calling Leaderboard, fetched once from the package index:
                  {categories}
  PATH            a YAML or JSONL file, or a folder of them; see `callwright bench init`

examples:
  callwright bench templates --template native generic --dataset bfcl:simple_python --sample 100
  callwright bench templates http://127.0.0.1:8080 --dataset cases/ --out run1
  callwright bench templates --baseline --dataset bfcl:multiple bfcl:irrelevance --sample 50
"""
DEFAULT_DATASETS = ("bfcl:simple_python", "bfcl:multiple", "bfcl:parallel", "bfcl:irrelevance")
CONTEXT_LENGTH = 16384  # shared by the requests that run at the same time


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions to those of `bench`."""
    raw = argparse.RawDescriptionHelpFormatter
    run = actions.add_parser(
        "templates", help="how well models call tools with each prompt template", description=TEXT,
        epilog=EPILOG.format(categories="\n                  ".join(CATEGORIES)),
        formatter_class=raw,
    )  # fmt: skip
    _add_asking(run)
    run.add_argument(
        "--template",
        nargs="+",
        default=["default"],
        metavar="NAME",
        help="native, or one of ours by name (default: what the server uses)",
    )
    run.add_argument("--dataset", nargs="+", default=list(DEFAULT_DATASETS), metavar="SET",
                     help=f"see below (default: {' '.join(DEFAULT_DATASETS)})")  # fmt: skip
    run.add_argument(
        "--variant", nargs="+", default=["plain"], metavar="NAME",
        help="what is changed about the tools: plain, no-descriptions, shuffled, distractors-20"
        " (default: plain)",
    )  # fmt: skip
    run.add_argument(
        "--sample", type=positive, metavar="N", help="so many cases, of all categories"
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

    both = actions.add_parser("compare", help="two runs, case by case")
    both.add_argument("a", type=Path, metavar="A", help="folder or results.jsonl of a run")
    both.add_argument("b", type=Path, metavar="B", help="of the other one")
    both.add_argument(
        "--wish", type=float, default=5.0, metavar="POINTS",
        help="difference that you would want to see, in points of a hundred (default: 5)",
    )  # fmt: skip
    both.set_defaults(run=run_compare)

    init = actions.add_parser("init", help="write an example of cases of your own")
    init.add_argument("folder", type=Path, metavar="DIR")
    init.set_defaults(run=run_init)

    add_verify(actions)


def add_verify(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `verify`, which `callwright tools` has too."""
    verify = actions.add_parser(
        "verify", help="fail if a tool has fewer than five phrasings, or one of them fails"
    )
    verify.add_argument("cases", type=Path, metavar="FILE", help="a file or folder of cases")
    _add_asking(verify, "--url")
    verify.set_defaults(run=run_verify)


def _add_asking(parser: argparse.ArgumentParser, url: str = "url") -> None:
    optional: dict[str, Any] = {} if url.startswith("-") else {"nargs": "?"}
    parser.add_argument(url, metavar="URL", help="base address of a running server", **optional)
    parser.add_argument(
        "--model",
        dest="models",
        nargs="+",
        metavar="NAME",
        help="models to ask for; without a URL, catalog names or paths",
    )
    parser.add_argument("--api-key", action="append", default=argparse.SUPPRESS, metavar="KEY")
    parser.add_argument("--tool-choice", choices=("auto", "required"), default="auto")
    parser.add_argument("--max-tokens", type=positive, default=512, metavar="N",
                        help="most tokens of an answer (default: %(default)s)")  # fmt: skip
    parser.add_argument("--parallel", type=positive, default=4, metavar="N",
                        help="requests at the same time (default: %(default)s)")  # fmt: skip
    config.add_flags(parser, ("models_dir", "offline"))


def run_templates(args: argparse.Namespace) -> int:
    """Run what is left to do, then write the report. Returns 0. Raises SetupError."""
    from prompts.bench.report import page
    from prompts.bench.results import read_rows
    from prompts.bench.run import RESULTS
    from prompts.bench.sampling import sample
    from prompts.bench.summary import summarise, to_json
    from prompts.bench.variants import check_variant

    for variant in args.variant:
        check_variant(variant)
    cases = cases_of(args)
    if args.sample is not None:
        cases = sample(cases, args.sample, args.seed)
    path = args.out / RESULTS
    _ask_all(args, cases, path)
    rows = read_rows(path)
    report = args.out / "report.html"
    report.write_text(page(rows, "Prompt templates"), "utf-8")
    _show(rows)
    print(json.dumps({"report": str(report), "arms": to_json(summarise(rows))}, ensure_ascii=False))
    return 0


def cases_of(args: argparse.Namespace) -> list[Case]:
    """The cases of `--dataset`, fetched if need be. Raises SetupError."""
    from prompts.bench import bfcl
    from prompts.bench.own_cases import read_cases

    categories = [one.removeprefix("bfcl:") for one in args.dataset if one.startswith("bfcl:")]
    cases: list[Case] = []
    if categories:
        archive = bfcl.fetch(
            config.data_dir() / "datasets",
            functools.partial(_download_wheel, config.load(args).offline),
        )
        cases += bfcl.read(archive, categories)
    for one in args.dataset:
        if not one.startswith("bfcl:"):
            cases += read_cases(Path(one))
    return cases


def _download_wheel(offline: bool, requirement: str, folder: Path) -> Path:
    from models.errors import SourceError
    from models.packages import pip_download

    if offline:
        raise SetupError(f"{requirement} is not here yet, and --offline forbids to fetch it")
    with Console(stderr=True).status(f"fetching {requirement}"):
        try:
            return pip_download(requirement, folder, lambda _: None)
        except SourceError as exc:
            raise SetupError(f"{requirement} cannot be fetched: {exc}") from None


def _ask_all(args: argparse.Namespace, cases: Sequence[Case], path: Path) -> None:
    """Ask for what `path` lacks, on the server at the URL or on own ones, model by model."""
    from prompts.bench.run import left_to_do
    from server.bench.peers import Rig, free_port, ours, running
    from server.bench.session import find_target
    from server.commands.local import local_model
    from server.commands.signals import sigterm_unwinds

    settings = config.load(args)
    key = settings.api_key[0] if settings.api_key else None
    if args.url:
        for model in args.models or [None]:
            target = find_target(args.url, model, "tools", key)
            _ask(args, cases, path, target.url, target.model, key)
        return
    for model in args.models or [settings.model]:
        own = settings.model_copy(update={"model": model})
        file = local_model(own, Console(stderr=True))
        if not left_to_do(_arms(args, file.name, is_ours=True), cases, path):
            continue
        rig = Rig(model, settings.models_dir, file.path, settings.threads or 2, CONTEXT_LENGTH,
                  args.parallel, reuses_prefixes=False)  # fmt: skip
        with sigterm_unwinds(), running(ours(rig, free_port()), key) as server:
            target = find_target(server.launch.url, None, "tools", key)
            _ask(args, cases, path, target.url, target.model, key)


def _ask(
    args: argparse.Namespace, cases: Sequence[Case], path: Path, url: str, model: str,
    key: str | None,
) -> None:  # fmt: skip
    import httpx

    from prompts.bench.run import left_to_do, run
    from server.bench.asking import Asker, is_callwright
    from server.bench.client import TIMEOUT

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    is_ours = is_callwright(url, headers)
    arms = _arms(args, model, is_ours=is_ours)
    todo = left_to_do(arms, cases, path)

    async def go(watcher: Watcher) -> None:
        async with httpx.AsyncClient(timeout=TIMEOUT, headers=headers, trust_env=False) as http:
            asker = Asker(http, url, is_ours=is_ours, tool_choice=args.tool_choice,
                          max_tokens=args.max_tokens)  # fmt: skip
            await run(
                todo, asker, path, pool=cases, parallel=args.parallel, tick=lambda _: watcher.tick()
            )

    with progress(len(todo)) as watcher:
        watcher.begin(model)
        asyncio.run(go(watcher))


def _arms(args: argparse.Namespace, model: str, *, is_ours: bool) -> list[Arm]:
    from prompts.bench.results import Arm
    from prompts.bench.variants import PLAIN

    templates = getattr(args, "template", ["default"])
    baseline = getattr(args, "baseline", False)
    if not is_ours and (templates != ["default"] or baseline):
        raise SetupError("only this server takes --template and --baseline, that one is another")
    variants = getattr(args, "variant", [PLAIN])
    held = (True, False) if baseline else (True,)
    return [Arm(model, one, *more) for one in templates for more in product(held, variants)]


def _show(rows: Sequence[Row]) -> None:
    from rich.table import Table

    from prompts.bench.summary import pairs, summarise

    table = Table("Arm", "Right", "95 %", "Names", "Schema", "Time", "Errors", box=None)
    for one in summarise(rows):
        time = "–" if one.wall_s is None else f"{one.wall_s:.2f} s"
        table.add_row(
            one.arm.name, f"{one.right.right} of {one.right.count}",
            f"{one.right.low:.1%}–{one.right.high:.1%}", f"{one.names.value:.1%}",
            f"{one.valid_schema.value:.1%}", time, str(one.errors),
        )  # fmt: skip
    console = Console()
    console.print(table)
    for a, b, found in pairs(rows):
        console.print(f"A: {a.name}, B: {b.name}: {found.verdict}", markup=False, highlight=False)


def run_compare(args: argparse.Namespace) -> int:
    """Each arm of A against the same arm of B, or the only one against the only one."""
    from prompts.bench.results import arms_of, compare, read_rows
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
        found = compare(
            [row for row in a if row.arm == one], [row for row in b if row.arm == other]
        )
        name = one.name if one == other else f"A: {one.name}, B: {other.name}"
        print(f"{name}: {found.verdict}")
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
    from prompts.bench.results import read_rows

    cases = read_cases(args.cases)
    few = too_few_phrasings(cases)
    for name, count in few.items():
        print(f"{name}: {count} phrasings, at least {LEAST_PHRASINGS} are needed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.jsonl"
        _ask_all(args, cases, path)
        rows = read_rows(path)
    wrong = [row for row in rows if row.answer.error or not row.marks.right]
    for row in wrong:
        print(f"{row.case}: {row.question}\n  {row.answer.error or row.marks.detail}")
    print(f"{len(rows) - len(wrong)} of {len(rows)} phrasings pass")
    return 1 if few or wrong else 0
