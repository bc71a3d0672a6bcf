"""The report on a terminal: a table for each comparison, its ratios, and all pairs below."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from server.bench.report import Comparison, Result, Server, Summary
from server.bench.stats import Ratio, Spread

WIDTH = 110  # the least that all columns fit into
_COLUMNS = (
    "workload", "load", "server", "right", "time s", "first s", "calls/s", "tok/s", "prompt",
    "out", "cached", "passes",
)  # fmt: skip


def show(comparison: Comparison, console: Console) -> None:
    """Print one comparison."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for index, heading in enumerate(_COLUMNS):
        table.add_column(heading, justify="left" if index < 3 else "right", no_wrap=True)
    for result in comparison.results:
        for row in rows(result, comparison):
            table.add_row(*row)
    console.print(table)
    for line in notes(comparison):
        console.print(Text(line), soft_wrap=True, highlight=False)


def rows(result: Result, comparison: Comparison) -> Iterator[list[str]]:
    """The rows of one level: each server, then the ratios with their interval."""
    yield [result.workload, result.load, comparison.a.name, *_cells(result.a)]
    if result.b is not None and comparison.b is not None:
        yield ["", "", comparison.b.name, *_cells(result.b)]
        ratios = (result.time_ratio, None, result.rate_ratio, result.stream_ratio)
        yield ["", "", "ratio", "", *map(_ratio, ratios), *[""] * 4]
        yield ["", "", "95 %", "", *map(_interval, ratios), *[""] * 4]


def _cells(summary: Summary) -> list[str]:
    asked = summary.answers + sum(summary.faults.values())
    return [
        f"{summary.answers}/{asked}",
        _spread(summary.wall_s),
        _spread(summary.first_s),
        _number(summary.calls_per_s, 2),
        _number(summary.stream_tokens_per_s, 1),
        _number(summary.prompt_tokens),
        _number(summary.output_tokens),
        _number(summary.cached_tokens),
        _number(summary.forward_passes, 1),
    ]


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _spread(value: Spread | None) -> str:
    return "-" if value is None else f"{value.median:.2f}"


def _ratio(value: Ratio | None) -> str:
    return "" if value is None else f"{value.median:.2f}"


def _interval(value: Ratio | None) -> str:
    return "" if value is None else f"{value.low:.2f}–{value.high:.2f}"


def notes(comparison: Comparison) -> Iterator[str]:
    """What does not fit the table: pairs, wrong answers, what the servers are."""
    yield ""
    names: dict[str, Callable[[Result], Ratio | None]] = {
        "time": lambda result: result.time_ratio,
        "rate": lambda result: result.rate_ratio,
        "stream": lambda result: result.stream_ratio,
    }
    for result in comparison.results:
        place = f"{result.workload}, {result.load}"
        for name, of in names.items():
            measured = of(result)
            if measured is not None:
                pairs = " ".join(f"{pair:.2f}" for pair in measured.pairs)
                yield f"{place}: {name} {measured.median:.2f}, median of {pairs}"
        yield from _wrong(place, comparison.a, result.a)
        if result.b is not None and comparison.b is not None:
            yield from _wrong(place, comparison.b, result.b)
    yield ""
    for server in filter(None, (comparison.a, comparison.b)):
        yield _about(server)
    if comparison.failed:
        yield f"not everything was measured: {comparison.failed}"


def _wrong(place: str, server: Server, summary: Summary) -> Iterator[str]:
    for what, count in summary.faults.items():
        yield f"{place}: {server.name}: {count} times {what}"
    if summary.least_cached_share is not None:
        share = summary.least_cached_share
        yield f"{place}: {server.name}: cached at least {share:.1%} of the turn before"


def _about(server: Server) -> str:
    parts = [f"{server.name}: {server.model} at {server.url}, asked by {server.mode}"]
    if server.version:
        parts.append(server.version)
    if server.threads:
        parts.append(f"{server.threads} threads")
    if server.context_length:
        parts.append(f"{server.context_length} tokens of context")
    if server.peak_memory_bytes:
        parts.append(f"at most {server.peak_memory_bytes / (1 << 20):.0f} MiB of memory")
    return ", ".join(parts)
