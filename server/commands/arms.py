"""Data sets, and arms that are asked for their cases: what the benchmarks of prompts share."""

from __future__ import annotations

import argparse
import asyncio
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from server import config
from server.commands.measuring import positive, progress, whole
from server.config import Settings
from server.errors import SetupError

if TYPE_CHECKING:
    from prompts.bench.cases import Case
    from prompts.bench.results import Arm
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
    from prompts.bench.own_cases import read_cases

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


def ask_all(args: argparse.Namespace, cases: Sequence[Case], path: Path) -> None:
    """Ask for what `path` lacks, on the server at the URL or on own ones, model by model."""
    from prompts.bench.run import left_to_do
    from server.bench.peers import Rig
    from server.bench.session import find_target
    from server.commands.local import local_model

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
        with own_target(rig, key) as target:
            _ask(args, cases, path, target.url, target.model, key)


@contextmanager
def own_target(rig: Rig, key: str | None) -> Iterator[Target]:
    """A server of ours, which ends with the block, on a free port of loopback."""
    from server.bench.peers import free_port, ours, running
    from server.bench.session import find_target
    from server.commands.signals import sigterm_unwinds

    with sigterm_unwinds(), running(ours(rig, free_port()), key) as server:
        yield find_target(server.launch.url, None, "tools", key)


def _ask(
    args: argparse.Namespace, cases: Sequence[Case], path: Path, url: str, model: str,
    key: str | None,
) -> None:  # fmt: skip
    import httpx

    from prompts.bench.run import left_to_do, run
    from server.bench.asking import Asker, is_callwright
    from server.bench.client import TIMEOUT
    from server.commands.remote import bearer

    headers = bearer(key)
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
