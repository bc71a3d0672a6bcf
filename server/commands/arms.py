"""Data sets, and arms that are asked for their cases: what the benchmarks of prompts share."""

from __future__ import annotations

import argparse
import asyncio
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from server import config
from server.commands.measuring import positive, progress, whole
from server.config import Settings
from server.errors import SetupError

if TYPE_CHECKING:
    from prompts.bench.cases import Case
    from prompts.bench.results import Row
    from prompts.bench.run import Plan
    from server.bench.client import Target
    from server.bench.peers import Rig
    from server.bench.session import Watcher

CONTEXT_LENGTH = 16384  # shared by the requests that run at the same time


def add_asking(parser: argparse.ArgumentParser, url: str = "url") -> None:
    """Add the server, how it is asked, and for which models. `url`: the name of its argument."""
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
    parser.add_argument("--parallel", type=positive, default=4, metavar="N",
                        help="requests at the same time (default: %(default)s)")  # fmt: skip
    config.add_flags(parser, ("models_dir", "offline"))


def add_answers(parser: argparse.ArgumentParser) -> None:
    """Add what an answer may be."""
    parser.add_argument("--tool-choice", choices=("auto", "required"), default="auto")
    parser.add_argument("--max-tokens", type=positive, default=512, metavar="N",
                        help="most tokens of an answer (default: %(default)s)")  # fmt: skip


def add_rows(parser: argparse.ArgumentParser, rows: int | None, skip: int) -> None:
    """Add which cases of each category are taken."""
    parser.add_argument("--rows", type=positive, default=rows, metavar="N",
                        help=f"cases of each category (default: {rows or 'all'})")  # fmt: skip
    parser.add_argument("--skip", type=whole, default=skip, metavar="N",
                        help="leave alone so many of each (default: %(default)s)")  # fmt: skip


def read_datasets(settings: Settings, datasets: Sequence[str]) -> list[Case]:
    """All cases of the data sets. Raises SetupError."""
    from prompts.bench import bfcl
    from prompts.bench.cases import check_unique
    from prompts.bench.own_cases import read_cases

    datasets = list(dict.fromkeys(datasets))
    categories = [one.removeprefix("bfcl:") for one in datasets if one.startswith("bfcl:")]
    cases: list[Case] = []
    if categories:
        archive = bfcl.fetch(
            config.data_dir() / "datasets",
            functools.partial(_download_wheel, settings.offline),
        )
        cases += bfcl.read(archive, categories)
    for one in datasets:
        if not one.startswith("bfcl:"):
            cases += read_cases(Path(one))
    check_unique(cases)
    return cases


def check_datasets(datasets: Sequence[str]) -> None:
    """Raises SetupError if there is no such data set. Nothing is fetched for that."""
    from prompts.bench.bfcl import CATEGORIES

    for one in datasets:
        known = [f"bfcl:{category}" for category in CATEGORIES]
        if one not in known and (one.startswith("bfcl:") or not Path(one).exists()):
            raise SetupError(
                f"there is no data set {one}",
                hint=f"It is a file, a folder, or one of {', '.join(known)}.",
            )


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


@dataclass(frozen=True)
class Outcome:
    """`rows` are of what was asked for, now or earlier; `asked` of them now."""

    rows: tuple[Row, ...]
    asked: int

    @property
    def problem(self) -> str | None:
        """How many requests failed, and why the first did."""
        errors = [row.answer.error for row in self.rows if row.answer.error is not None]
        if not errors:
            return None
        return f"{len(errors)} of {self.asked} requests failed, the first: {errors[0]}"

    @property
    def is_failure(self) -> bool:
        """Whether all that was asked now failed."""
        return self.asked > 0 and self.asked == sum(
            row.answer.error is not None for row in self.rows
        )


def ask_all(
    args: argparse.Namespace, cases: Sequence[Case], path: Path, pool: Sequence[Case] = ()
) -> Outcome:
    """Ask for what `path` lacks, on the server at the URL or on own ones, model by model.

    Distractors are taken from the tools of `pool`.
    """
    from prompts.bench.run import left_to_do, planned_rows
    from server.bench.asking import is_callwright
    from server.bench.peers import Rig
    from server.bench.session import find_target
    from server.commands.local import local_model
    from server.commands.remote import bearer

    settings = config.load(args)
    key = settings.api_key[0] if settings.api_key else None
    outcomes = []
    if args.url is not None:
        for model in dict.fromkeys(args.models or [None]):
            target = find_target(args.url, model, "tools", key)
            is_ours = is_callwright(target.url, bearer(key))
            plan = _plan(args, cases, pool, target.model, is_ours=is_ours)
            outcomes.append(_ask(args, plan, path, target, is_ours=is_ours))
        return _all(outcomes)
    for model in dict.fromkeys(args.models or [settings.model]):
        own = settings.model_copy(update={"model": model})
        file = local_model(own, Console(stderr=True))
        plan = _plan(args, cases, pool, file.name, is_ours=True)
        if not left_to_do(plan, path):
            outcomes.append(Outcome(tuple(planned_rows(plan, path)), 0))
            continue
        rig = Rig(model, settings.models_dir, file.path, settings.threads or 2, CONTEXT_LENGTH,
                  args.parallel, reuses_prefixes=False)  # fmt: skip
        with own_target(rig, key) as target:
            outcomes.append(_ask(args, plan, path, target, is_ours=True))
    return _all(outcomes)


def _all(outcomes: Sequence[Outcome]) -> Outcome:
    rows = {row.key: row for one in outcomes for row in one.rows}
    return Outcome(tuple(rows.values()), sum(one.asked for one in outcomes))


@contextmanager
def own_target(rig: Rig, key: str | None) -> Iterator[Target]:
    """A server of ours, which ends with the block, on a free port of loopback."""
    from server.bench.peers import free_port, ours, running
    from server.bench.session import find_target
    from server.commands.signals import sigterm_unwinds

    with sigterm_unwinds(), running(ours(rig, free_port()), key) as server:
        yield find_target(server.launch.url, None, "tools", key)


def _ask(
    args: argparse.Namespace, plan: Plan, path: Path, target: Target, *, is_ours: bool
) -> Outcome:
    import httpx

    from prompts.bench.run import left_to_do, planned_rows, run
    from server.bench.asking import Asker
    from server.bench.client import TIMEOUT
    from server.commands.remote import bearer

    todo = left_to_do(plan, path)
    headers = bearer(target.key)

    async def go(watcher: Watcher) -> None:
        async with httpx.AsyncClient(timeout=TIMEOUT, headers=headers, trust_env=False) as http:
            asker = Asker(http, target.url, is_ours=is_ours, tool_choice=plan.tool_choice,
                          max_tokens=plan.max_tokens)  # fmt: skip
            await run(
                plan, todo, asker, path, parallel=args.parallel, tick=lambda _: watcher.tick()
            )

    with progress(len(todo)) as watcher:
        watcher.begin(escape(target.model))
        asyncio.run(go(watcher))
    return Outcome(tuple(planned_rows(plan, path)), len(todo))


def _plan(
    args: argparse.Namespace, cases: Sequence[Case], pool: Sequence[Case], model: str, *,
    is_ours: bool,
) -> Plan:  # fmt: skip
    from prompts.bench.results import Arm
    from prompts.bench.run import Plan
    from prompts.bench.variants import PLAIN

    templates = dict.fromkeys(getattr(args, "template", ["default"]))
    baseline = getattr(args, "baseline", False)
    if not is_ours and (list(templates) != ["default"] or baseline):
        raise SetupError("only this server takes --template and --baseline, that one is another")
    variants = dict.fromkeys(getattr(args, "variant", [PLAIN]))
    held = (True, False) if baseline else (True,)
    arms = [Arm(model, one, *more) for one in templates for more in product(held, variants)]
    return Plan(arms, cases, pool, args.tool_choice, args.max_tokens)
