"""What was measured, summed up: per level a summary of each server, and their ratios. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from server.bench.load import Block, Measured, Sample
from server.bench.stats import Ratio, Spread, median, ratio, spread
from server.bench.workloads import Level
from server.wire.body import JsonObject


@dataclass(frozen=True)
class Machine:
    """Where the benchmark ran; `cores` are those of the whole machine, `versions` of packages."""

    cpu: str
    cores: int
    system: str
    python: str
    versions: dict[str, str | None]


@dataclass(frozen=True)
class Server:
    """A server as it was measured. None for what is not known, as of one started elsewhere."""

    name: str
    url: str
    model: str
    mode: str
    version: str | None = None
    threads: int | None = None
    context_length: int | None = None
    peak_memory_bytes: int | None = None


@dataclass(frozen=True)
class Summary:
    """One server on one level. Times, tokens and rates are of right answers only.

    `faults` counts the others by what is wrong. Tokens are medians of a request.
    `least_cached_share` is of `cached_tokens` over the prompt of the turn before. `calls_per_s` and
    `tokens_per_s` are of all rounds together, `stream_tokens_per_s` is the median of one stream.
    `forward_passes` is the mean of a request, where one client runs alone.
    """

    answers: int
    faults: dict[str, int]
    wall_s: Spread | None
    first_s: Spread | None
    calls_per_s: float
    tokens_per_s: float
    stream_tokens_per_s: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    cached_tokens: float | None
    least_cached_share: float | None
    forward_passes: float | None


@dataclass(frozen=True)
class Result:
    """A level: `a` is the first server, `b` the second if there is one.

    Ratios are a over b, a pair for each round. `time_ratio` is of the median time of an answer,
    below 1 is faster; `rate_ratio` of answers per second (tokens in plain chat) and
    `stream_ratio` of tokens per second in one stream, above 1 is faster.
    """

    workload: str
    load: str
    rounds: int
    a: Summary
    b: Summary | None
    time_ratio: Ratio | None
    rate_ratio: Ratio | None
    stream_ratio: Ratio | None


@dataclass(frozen=True)
class Comparison:
    """All levels on one server, or on two in turn; `failed` is why there are no more of them."""

    a: Server
    b: Server | None
    results: tuple[Result, ...]
    failed: str | None = None


@dataclass(frozen=True)
class Report:
    """A whole run."""

    machine: Machine
    seed: int
    salt: str
    comparisons: tuple[Comparison, ...]


def summarize(level: Level, measured: Measured) -> Summary:
    """What one server did on one level."""
    blocks = measured.blocks
    samples = [sample for block in blocks for sample in block.samples]
    right = [sample for sample in counted(level, samples) if sample.fault is None]
    # A turn that is not reported may fail too, and then its dialogue ends.
    faults = Counter(sample.fault for sample in samples if sample.fault is not None)
    return Summary(
        answers=len(right),
        faults=dict(faults),
        wall_s=spread([sample.wall_s for sample in right]),
        first_s=spread(known(sample.first_s for sample in right)),
        calls_per_s=_per_second(blocks, lambda _: 1),
        tokens_per_s=_per_second(blocks, _output),
        stream_tokens_per_s=_stream_rate(level, right),
        prompt_tokens=median(known(sample.prompt_tokens for sample in right))
        or measured.counted_prompt,
        output_tokens=median(known(sample.output_tokens for sample in right)),
        cached_tokens=median(known(sample.cached_tokens for sample in right)),
        least_cached_share=min(known(map(_cached_share, right)), default=None),
        forward_passes=_passes(level, blocks, len(samples)),
    )


def compare(level: Level, sides: Sequence[Measured]) -> Result:
    """The result of a level from one or two servers."""
    a, b = sides[0], sides[1] if len(sides) > 1 else None

    def paired(value: Callable[[Block], float | None]) -> Ratio | None:
        if b is None:
            return None
        return ratio([(value(x), value(y)) for x, y in zip(a.blocks, b.blocks, strict=True)])

    def right(block: Block) -> list[Sample]:
        return [sample for sample in counted(level, block.samples) if sample.fault is None]

    return Result(
        workload=level.workload.name,
        load=str(level.load),
        rounds=len(a.blocks),
        a=summarize(level, a),
        b=summarize(level, b) if b else None,
        time_ratio=paired(lambda block: median([one.wall_s for one in right(block)])),
        rate_ratio=paired(lambda block: _rate(level, block)),
        stream_ratio=paired(lambda block: _stream_rate(level, right(block))),
    )


def to_json(report: Report) -> JsonObject:
    """The report with numbers of six digits, which is more than they are worth."""
    rounded: JsonObject = _rounded({"benchmark": "load", **asdict(report)})
    return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def counted(level: Level, samples: Sequence[Sample]) -> list[Sample]:
    """Those that the workload reports."""
    return [sample for sample in samples if sample.turn >= level.workload.counted_from]


def known(values: Iterable[float | None]) -> list[float]:
    """Those that are known."""
    return [value for value in values if value is not None]


def _per_second(blocks: Sequence[Block], amount: Callable[[Sample], float]) -> float:
    """Of all right answers, also of turns that are not reported: they take their time too."""
    total = sum(amount(one) for block in blocks for one in block.samples if one.fault is None)
    return total / sum(block.seconds for block in blocks)


def _rate(level: Level, block: Block) -> float:
    """Answers to plain chat may differ in length: there it is tokens."""
    if level.workload.tool_count:
        return _per_second([block], lambda _: 1)
    return _per_second([block], _output)


def _output(sample: Sample) -> float:
    return sample.output_tokens or 0


def _stream_rate(level: Level, samples: Sequence[Sample]) -> float | None:
    """Of plain chat only: tokens of a call may come all at once."""
    if level.workload.tool_count:
        return None
    return median(known(sample.stream_rate for sample in samples))


def _cached_share(sample: Sample) -> float | None:
    if sample.cached_tokens is None or not sample.previous_prompt_tokens:
        return None
    return sample.cached_tokens / sample.previous_prompt_tokens


def _passes(level: Level, blocks: Sequence[Block], requests: int) -> float | None:
    """With several clients servers count differently: one shared pass once, or for each."""
    made = known(block.forward_passes for block in blocks)
    if level.is_open or level.clients > 1 or len(made) < len(blocks):
        return None
    return sum(made) / requests
