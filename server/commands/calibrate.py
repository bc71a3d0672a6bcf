"""`callwright bench calibrate`: the bias of calls against text that suits a model and a prompt."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console

from server import config
from server.commands.arms import add_rows, own_target
from server.commands.measuring import progress
from server.commands.templates import cases_of
from server.errors import CallwrightError, SetupError

if TYPE_CHECKING:
    from prompts.bench.calibration import Seen
    from prompts.bench.cases import Case
    from server.bench.client import Target

TEXT = """\
Ask questions that a tool fits and questions that none fits, and look at where each answer begins:
how much more likely is a call than text? Propose the bias (`tool_call_bias`) that refuses the most
needless calls and keeps a share of the needed ones. One token per question is all it takes. With a
URL a running server is asked, which must be ours; without one, it is started on loopback.
Score on other rows than these: by default the first 100 of each data set are left alone.
"""
EPILOG = """\
examples:
  callwright bench calibrate --model qwen2.5-coder-1.5b-instruct
  callwright bench calibrate http://127.0.0.1:8080 --template native generic --rows 60
  callwright bench calibrate --dataset cases/ --skip 0 --keep 0.99
  CALLWRIGHT_FIT_QUESTION=true callwright bench calibrate     # with the fit question's part
"""
CONTEXT_LENGTH = 8192  # one request at a time
DATASETS = ("bfcl:simple_python", "bfcl:multiple", "bfcl:irrelevance")


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action to those of `bench`."""
    parser = actions.add_parser(
        "calibrate", help="when to call in auto: propose a bias of calls against text",
        description=TEXT, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("url", metavar="URL", nargs="?", help="base address of a running server")
    parser.add_argument("--model", default=argparse.SUPPRESS, metavar="NAME",
                        help="catalog name or path, without a URL")  # fmt: skip
    parser.add_argument("--template", nargs="+", default=[None], metavar="NAME",
                        help="calibrate for these (default: what the server uses)")  # fmt: skip
    parser.add_argument("--dataset", nargs="+", default=list(DATASETS), metavar="SET",
                        help=f"see `bench templates` (default: {' '.join(DATASETS)})")  # fmt: skip
    add_rows(parser, rows=100, skip=100)
    parser.add_argument("--keep", type=float, default=0.95, metavar="SHARE",
                        help="share of needed calls to keep (default: %(default)s)")  # fmt: skip
    parser.add_argument("--api-key", action="append", default=argparse.SUPPRESS, metavar="KEY")
    config.add_flags(parser, ("models_dir", "offline"))
    parser.set_defaults(run=run_calibrate)


def run_calibrate(args: argparse.Namespace) -> int:
    """Measure, and propose a bias for each template. Returns 0. Raises SetupError."""
    if not 0 < args.keep <= 1:
        raise SetupError("--keep is a share above 0 and at most 1")
    cases = cases_of(args)
    if len({case.need == "none" for case in cases}) < 2:
        raise SetupError("questions that need a call and questions that need none are necessary")
    settings = config.load(args)
    key = settings.api_key[0] if settings.api_key else None
    results = []
    with _server(args, settings, key) as target:
        for template in args.template:
            with progress(len(cases)) as watcher:
                watcher.begin(f"{target.model}, {template or 'its template'}")
                seen = asyncio.run(_look(cases, target, template, key, watcher.tick))
            results.append(_result(seen, template, args.keep))
    print(json.dumps({"model": target.model, "calibrations": results}, ensure_ascii=False))
    return 0


@contextmanager
def _server(
    args: argparse.Namespace, settings: config.Settings, key: str | None
) -> Iterator[Target]:
    from server.bench.peers import Rig
    from server.bench.session import find_target
    from server.commands.local import local_model

    if args.url:
        yield find_target(args.url, getattr(args, "model", None), "tools", key)
        return
    file = local_model(settings, Console(stderr=True)).path
    rig = Rig(settings.model, settings.models_dir, file, settings.threads or 2, CONTEXT_LENGTH, 1)
    with own_target(rig, key) as target:
        yield target


async def _look(
    cases: Sequence[Case], target: Target, template: str | None, key: str | None,
    tick: Callable[[], None],
) -> list[Seen]:  # fmt: skip
    """The margin of each case, one after the other. Raises SetupError."""
    import httpx

    from prompts.bench.calibration import Seen
    from server.bench.client import TIMEOUT
    from server.bench.margins import margin_of
    from server.commands.remote import bearer

    seen = []
    async with httpx.AsyncClient(timeout=TIMEOUT, headers=bearer(key), trust_env=False) as http:
        for case in cases:
            try:
                margin = await margin_of(http, target.url, target.model, template, case)
            except (httpx.HTTPError, CallwrightError) as exc:
                raise SetupError(f"{target.url} cannot be asked {case.id}: {exc}") from None
            if margin is None:
                raise SetupError(
                    f"{target.url} does not tell how likely a call is",
                    hint="It has to be this server, with a model and template whose answers begin"
                    " either with a call or with text.",
                )
            seen.append(Seen(case.id, case.need != "none", margin))
            tick()
    return seen


def _result(seen: Sequence[Seen], template: str | None, keep: float) -> dict[str, object]:
    """Show what was found, and give it for the line of JSON."""
    from prompts.bench.calibration import propose

    found = propose(seen, keep)
    assert found is not None, "there are both kinds"
    print(
        f"{template or 'its template'}: tool_call_bias {found.bias:+.2f} keeps {found.kept.right}"
        f" of {found.kept.count} needed calls and refuses {found.refused.right} of"
        f" {found.refused.count} needless ones ({found.before.right} without it);"
        f" AUC {found.auc:.3f}"
    )
    return {"template": template, **asdict(found), "cases": [asdict(one) for one in seen]}
