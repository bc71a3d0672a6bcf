from __future__ import annotations

import io
import json

from rich.console import Console

from server.bench.load import Measured
from server.bench.report import (
    Comparison,
    Machine,
    Report,
    Server,
    compare,
    summarize,
    to_json,
)
from server.bench.table import WIDTH, show
from server.bench.workloads import WORKLOADS, Level, Open
from tests.bench.helpers import block, level, sample

A = Server("ours", "http://127.0.0.1:1/v1", "small", "tools", threads=2, context_length=8192)
B = Server("theirs", "http://127.0.0.1:2/v1", "small", "response_format", version="b1",
           peak_memory_bytes=700 << 20)  # fmt: skip


def test_a_wrong_answer_is_no_answer() -> None:
    measured = Measured((
        block(sample(1.0), sample(3.0), sample(0.01, fault="no call"), seconds=4.0),
        block(sample(2.0), sample(0.01, fault="no call"), seconds=2.0),
    ))  # fmt: skip
    summary = summarize(level(), measured)
    assert summary.answers == 3
    assert summary.faults == {"no call": 2}
    assert summary.wall_s is not None
    assert summary.wall_s.median == 2.0
    assert summary.first_s is not None
    assert summary.first_s.median == 1.0
    assert summary.calls_per_s == 0.5
    assert summary.tokens_per_s == 10.0


def test_nothing_right_is_still_a_summary() -> None:
    summary = summarize(level(), Measured((block(sample(fault="no call")),), counted_prompt=50))
    assert (summary.answers, summary.calls_per_s, summary.wall_s) == (0, 0.0, None)
    assert (summary.prompt_tokens, summary.output_tokens) == (50, None)
    result = compare(level(), [Measured((block(sample(fault="no call")),))] * 2)
    assert result.time_ratio is None


def test_the_first_turn_of_an_agent_takes_time_but_is_not_reported() -> None:
    turns = [
        sample(9.0, turn=0, prompt_tokens=100),
        sample(1.0, turn=1, cached_tokens=99, previous_prompt_tokens=100),
        sample(1.0, turn=2, cached_tokens=90, previous_prompt_tokens=120),
    ]
    summary = summarize(level("agent"), Measured((block(*turns, seconds=12.0),)))
    assert summary.answers == 2
    assert summary.wall_s is not None
    assert summary.wall_s.p90 == 1.0
    assert summary.calls_per_s == 0.25
    assert summary.least_cached_share == 0.75


def test_forward_passes_are_told_where_one_client_runs_alone() -> None:
    measured = Measured((block(sample(), sample(), passes=22.0), block(sample(), passes=11.0)))
    assert summarize(level(), measured).forward_passes == 11.0
    assert summarize(level(clients=4), measured).forward_passes is None
    assert summarize(Level(WORKLOADS["warm5"], Open(1)), measured).forward_passes is None
    silent = Measured((*measured.blocks, block(sample())))
    assert summarize(level(), silent).forward_passes is None


def test_the_rate_of_a_stream_is_of_plain_chat_only() -> None:
    measured = Measured((block(sample(stream_rate=30.0), sample(stream_rate=None)),))
    assert summarize(level("chat"), measured).stream_tokens_per_s == 30.0
    assert summarize(level("warm5"), measured).stream_tokens_per_s is None


def test_ratios_go_round_by_round() -> None:
    ours = Measured((
        block(sample(1.0), seconds=1.0),
        block(sample(1.0), sample(3.0), seconds=4.0),
        block(sample(9.0, fault="no call"), seconds=9.0),
    ))  # fmt: skip
    theirs = Measured((
        block(sample(2.0), seconds=2.0),
        block(sample(8.0), sample(0.1, fault="no call"), seconds=10.0),
        block(sample(5.0), seconds=5.0),
    ))  # fmt: skip
    result = compare(level(), [ours, theirs])
    assert result.time_ratio is not None
    assert result.time_ratio.pairs == (0.5, 0.25)
    assert result.rate_ratio is not None
    assert result.rate_ratio.pairs == (2.0, 5.0)
    assert result.stream_ratio is None


def test_plain_chat_is_compared_by_tokens() -> None:
    ours = Measured((block(sample(output_tokens=40, stream_rate=30.0), seconds=1.0),))
    theirs = Measured((block(sample(output_tokens=80, stream_rate=20.0), seconds=4.0),))
    result = compare(level("chat"), [ours, theirs])
    assert result.rate_ratio is not None
    assert result.rate_ratio.pairs == (2.0,)
    assert result.stream_ratio is not None
    assert result.stream_ratio.pairs == (1.5,)


def comparison(with_peer: bool = True) -> Comparison:
    agent = [
        sample(0.5, turn=0),
        sample(0.5, turn=1, cached_tokens=97, previous_prompt_tokens=100),
        sample(0.1, turn=2, fault="arguments [against] the schema"),
    ]
    sides = [
        Measured((block(*agent, seconds=2.0, passes=12.0), block(*agent, seconds=3.0, passes=9.0))),
        Measured((block(sample(1.0, turn=1)), block(sample(2.0, turn=1)))),
    ]
    result = compare(level("agent"), sides if with_peer else sides[:1])
    return Comparison(A, B if with_peer else None, (result,))


def shown(one: Comparison, width: int = WIDTH) -> str:
    out = io.StringIO()
    show(one, Console(file=out, width=width))
    return out.getvalue()


def test_the_table_of_two_servers() -> None:
    text = shown(comparison())
    rows = [line.split() for line in text.splitlines()]
    assert rows[1][:7] == ["agent", "1", "client", "ours", "2/4", "0.50", "0.25"]
    assert rows[2][:2] == ["theirs", "2/2"]
    assert rows[3][:2] == ["ratio", "0.38"]
    assert "agent, 1 client: time 0.38, median of 0.50 0.25" in text
    assert "agent, 1 client: ours: 2 times arguments [against] the schema" in text
    assert "agent, 1 client: ours: cached at least 97.0% of the turn before" in text
    assert "ours: small at http://127.0.0.1:1/v1, asked by tools, 2 threads, 8192 tokens" in text
    assert "theirs: small at http://127.0.0.1:2/v1, asked by response_format, b1, at most" in text


def test_the_table_of_one_server() -> None:
    text = shown(comparison(with_peer=False))
    assert "ratio" not in text
    assert "theirs" not in text
    assert "ours" in text


def test_the_report_as_json() -> None:
    machine = Machine("a CPU", 2, "Linux", "3.11", {"callwright": None})
    report = to_json(Report(machine, 1, "abc", (comparison(), comparison(with_peer=False))))
    read = json.loads(json.dumps(report, allow_nan=False))
    assert read["benchmark"] == "load"
    assert read["machine"]["cores"] == 2
    [result] = read["comparisons"][0]["results"]
    assert result["workload"] == "agent"
    assert result["a"]["faults"] == {"arguments [against] the schema": 2}
    assert result["time_ratio"]["pairs"] == [0.5, 0.25]
    assert read["comparisons"][1]["b"] is None


def test_numbers_are_rounded() -> None:
    machine = Machine("a CPU", 2, "Linux", "3.11", {})
    one = compare(level(), [Measured((block(sample(1 / 3)),))])
    report = to_json(Report(machine, 1, "abc", (Comparison(A, None, (one,)),)))
    assert report["comparisons"][0]["results"][0]["a"]["wall_s"]["median"] == 0.333333
