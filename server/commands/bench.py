"""`callwright bench`: measure servers through their public interface."""

from __future__ import annotations

import argparse
import json
import math
import secrets
from typing import TYPE_CHECKING

from rich.console import Console

from server import config
from server.bench.bodies import MODES
from server.bench.workloads import WORKLOADS, Closed, Level, Open, Series
from server.commands import calibrate, templates
from server.commands.measuring import positive, progress
from server.errors import SetupError

if TYPE_CHECKING:
    from server.bench.report import Comparison
    from server.bench.session import Plan

EPILOG = """\
examples:
  callwright bench load
  callwright bench load http://127.0.0.1:8080 --against http://127.0.0.1:9090
  callwright bench templates --template native generic --sample 100
  callwright bench init cases && callwright tools verify cases/weather.yaml
"""

LOAD_TEXT = """\
Measure a server, or two in turn, with the same requests. Without a URL, this server and its peers
(llama-server on PATH or at --llama-server, and llama-cpp-python's own server where it is installed)
are started on loopback with the same model, threads and context, and ended afterwards.
"""

LOAD_EPILOG = """\
workloads:
{workloads}

Each answer is checked: it has to be one call of a tool that was offered, with arguments that
satisfy its schema. Others count as failures, and neither as calls nor in the times.
With two servers, each round asks both for the same, one after the other, and which one goes first
alternates. A ratio is the first server over the second, round by round: "time" below 1 and "rate"
above 1 mean that the first one is faster. The last line of the output is JSON with everything.
All workloads together take long on a small machine: the bar on stderr shows the time left.

how to ask for a call (--mode, --peer-mode):
  tools            tools and tool_choice: required
  response_format  json_schema of {{name, arguments}}, tools in the system message: for servers
                   whose "required" is no constraint, such as llama-server
  json_object      the same with an older response_format, for llama-cpp-python's server

examples:
  callwright bench load http://127.0.0.1:8080
  callwright bench load http://127.0.0.1:8080 --against http://127.0.0.1:9090
  callwright bench load http://127.0.0.1:8080 --workload warm5 --clients 1,8 --rounds 10
  callwright bench load http://127.0.0.1:8080 --workload warm5 --rate 2
  callwright bench load --llama-server ~/llama.cpp/build/bin/llama-server --workload agent chat
  callwright bench load http://127.0.0.1:8080 --json > before.json
"""

THREADS = 2
CONTEXT_LENGTH = 32768  # eight slots of llama-server with 4096 each: 40 tools fit


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bench` and its actions to the command's parser."""
    parser = subparsers.add_parser(
        "bench",
        help="measure servers: time per call, calls per second, against each other",
        description="Measure OpenAI-compatible servers through their public interface.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    lines = (f"  {one.name:<16} {one.about}" for one in WORKLOADS.values())
    load = actions.add_parser(
        "load",
        help="how fast a server answers, alone and under load",
        description=LOAD_TEXT,
        epilog=LOAD_EPILOG.format(workloads="\n".join(lines)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_servers(load)
    _add_requests(load)
    load.add_argument("--json", action="store_true", help="print only the line of JSON")
    load.set_defaults(run=run_load)
    templates.add_actions(actions)
    calibrate.add_action(actions)


def _add_servers(load: argparse.ArgumentParser) -> None:
    load.add_argument("url", nargs="?", metavar="URL", help="base address of a running server")
    load.add_argument("--against", metavar="URL", help="a second running server, to compare with")
    load.add_argument(
        "--model",
        default=argparse.SUPPRESS,
        metavar="TEXT",
        help="model to ask for (default: the server's first); without a URL, catalog name or path"
        f" of the model to serve (default: {config.DEFAULT_MODEL})",
    )
    load.add_argument("--against-model", metavar="TEXT", help="the same for the second server")
    load.add_argument(
        "--mode", choices=MODES, default="tools",
        help="how the first server is asked for a call (default: tools)",
    )  # fmt: skip
    load.add_argument(
        "--peer-mode", choices=MODES, default="response_format",
        help="how the second server is asked (default: response_format)",
    )  # fmt: skip
    load.add_argument(
        "--api-key", action="append", default=argparse.SUPPRESS, metavar="KEY",
        help=f"API key of the first server ({config.PREFIX}API_KEY)",
    )  # fmt: skip
    load.add_argument("--against-api-key", metavar="KEY", help="API key of the second server")
    load.add_argument("--llama-server", metavar="PATH", help="the program, where it is not on PATH")
    load.add_argument(
        "--threads", type=positive, default=argparse.SUPPRESS, metavar="N",
        help=f"threads of the servers that are started (default: {THREADS}); with a URL, a note"
        " for the report",
    )  # fmt: skip
    load.add_argument(
        "--context-length", type=positive, default=CONTEXT_LENGTH, metavar="N",
        help="tokens of KV cache of the servers that are started (default: %(default)s)",
    )  # fmt: skip
    config.add_flags(load, ("models_dir", "offline"))


def _add_requests(load: argparse.ArgumentParser) -> None:
    load.add_argument(
        "--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME",
        help=f"{', '.join(WORKLOADS)} (default: all)",
    )  # fmt: skip
    arrival = load.add_mutually_exclusive_group()
    arrival.add_argument(
        "--clients", type=_counts, metavar="N,N",
        help="clients at the same time (default: 1 and 4, with some workloads also 8)",
    )  # fmt: skip
    arrival.add_argument(
        "--rate", type=_rate, metavar="R",
        help="open loop: R requests a second on average, whether or not earlier ones are"
        " answered; times count from when a request was due",
    )  # fmt: skip
    load.add_argument(
        "--rounds", type=positive, metavar="N",
        help="rounds (default: at least 5, and at least 20 answers from each server)",
    )  # fmt: skip
    load.add_argument(
        "--seed", type=int, default=1, metavar="N", help="draws other texts (default: 1)"
    )


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(positive, text.split(",")))


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return rate


def run_load(args: argparse.Namespace) -> int:
    """Measure and show; returns 0, also where answers were wrong. Raises SetupError."""
    # Imported late: the help of all commands comes at once because of it.
    from server.bench.report import Report, to_json
    from server.bench.session import this_machine
    from server.bench.table import WIDTH, show

    plan = _plan(args)
    comparisons = _on_addresses(args, plan) if args.url else _on_started(args, plan)
    report = Report(this_machine(), args.seed, plan.series.salt, tuple(comparisons))
    if not args.json:
        console = Console()
        console.width = max(console.width, WIDTH)
        for comparison in comparisons:
            show(comparison, console)
    print(json.dumps(to_json(report), ensure_ascii=False))
    return int(any(comparison.failed for comparison in comparisons))


def _plan(args: argparse.Namespace) -> Plan:
    from server.bench.session import Plan

    levels: list[Level] = []
    for name in args.workload:
        workload = WORKLOADS[name]
        if args.rate is not None:
            levels.append(Level(workload, Open(args.rate)))
        else:
            counts = args.clients or workload.clients
            levels += [Level(workload, Closed(count)) for count in counts]
    return Plan(
        levels=tuple(levels),
        series=Series(args.seed, salt=secrets.token_hex(3)),
        least_rounds=args.rounds or 5,
        least_answers=1 if args.rounds else 20,
    )


def _on_addresses(args: argparse.Namespace, plan: Plan) -> list[Comparison]:
    from server.bench.session import compare_targets, find_target

    settings = config.load(args)
    key = settings.api_key[0] if settings.api_key else None
    targets = [find_target(args.url, getattr(args, "model", None), args.mode, key)]
    if args.against:
        targets.append(
            find_target(args.against, args.against_model, args.peer_mode, args.against_api_key)
        )
    with progress(plan.dialogues(len(targets))) as watcher:
        return [compare_targets(plan, targets, getattr(args, "threads", None), watcher)]


def _on_started(args: argparse.Namespace, plan: Plan) -> list[Comparison]:
    from server.bench.peers import Rig, find_peers
    from server.bench.session import compare_started
    from server.commands.local import local_model
    from server.commands.signals import sigterm_unwinds

    if args.against or "api_key" in args:
        raise SetupError("--against and --api-key need a URL before them")
    settings = config.load(args)
    model = local_model(settings, Console(stderr=True))
    rig = Rig(
        model=settings.model,
        models_dir=settings.models_dir,
        path=model.path,
        threads=settings.threads or THREADS,
        context_length=args.context_length,
    )
    key = settings.api_key[0] if settings.api_key else None
    peers = find_peers(args.llama_server)
    dialogues = len(peers) * plan.dialogues(2) if peers else plan.dialogues(1)
    with sigterm_unwinds(), progress(dialogues) as watcher:
        return compare_started(plan, rig, peers, key, watcher)
