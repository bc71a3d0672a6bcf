"""Prometheus metrics, named after vLLM's where it has one (its `vllm:` is our `callwright:`).

One registry per application, so that tests and several applications in one process do not meet.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from server.engine.engine import Load
from server.engine.timings import Timings

PREFIX = "callwright:"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)


class Metrics:
    """Counts what the engine did. `load` is asked at each scrape."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, load: Callable[[], Load]) -> None:
        self._registry = CollectorRegistry()
        self._gauge("num_requests_running", "Requests in the batch", lambda: load().running)
        self._gauge("num_requests_waiting", "Requests in the queue", lambda: load().waiting)
        self._gauge(
            "kv_cache_usage_perc",
            "Share of KV cells that hold tokens, retired prefixes included (1 is all)",
            lambda: load().used_cells / load().cells,
        )
        self._prompt = self._counter("prompt_tokens", "Prompt tokens of ended requests")
        self._cached = self._counter("prefix_cache_hits", "Prompt tokens found in the KV cache")
        self._queried = self._counter("prefix_cache_queries", "Prompt tokens looked up there")
        self._output = self._counter("generation_tokens", "Output tokens")
        self._forced = self._counter(
            "forced_tokens", "Output tokens that the grammar left no choice"
        )
        self._drafted = self._counter("spec_decode_num_draft_tokens", "Tokens of drafts")
        self._accepted = self._counter(
            "spec_decode_num_accepted_tokens", "Tokens of drafts that the model chose"
        )
        self._passes = self._counter("forward_passes", "Forward passes that requests took part in")
        self._ended = Counter(
            PREFIX + "request_success",
            "Requests by how they ended",
            ["finished_reason"],
            registry=self._registry,
        )
        self._first = self._histogram("time_to_first_token_seconds", "Until the model chose one")
        self._queue = self._histogram("request_queue_time_seconds", "In the queue")
        self._prefill = self._histogram("request_prefill_time_seconds", "In prefill")
        self._decode = self._histogram("request_decode_time_seconds", "After prefill")
        self._constraint = self._histogram(
            "request_constraint_time_seconds", "In the constraint, of the engine's time"
        )
        self._total = self._histogram("e2e_request_latency_seconds", "From arrival to the end")

    def observe(self, timings: Timings, reason: str) -> None:
        """A request ended; `reason` is stop, length, error, timeout or abort."""
        self._prompt.inc(timings.prompt_tokens)
        self._queried.inc(timings.prompt_tokens)
        self._cached.inc(timings.cached_tokens)
        self._output.inc(timings.output_tokens)
        self._forced.inc(timings.forced_tokens)
        self._drafted.inc(timings.drafted_tokens)
        self._accepted.inc(timings.accepted_tokens)
        self._passes.inc(timings.forward_passes)
        self._ended.labels(reason).inc()
        self._queue.observe(timings.queue_s)
        self._prefill.observe(timings.prefill_s)
        self._constraint.observe(timings.constraint_s)
        self._total.observe(timings.total_s)
        if timings.first_token_s:
            self._first.observe(timings.first_token_s)
            self._decode.observe(max(0.0, timings.total_s - timings.first_token_s))

    def text(self) -> bytes:
        """The exposition that a scrape gets."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        Gauge(PREFIX + name, text, registry=self._registry).set_function(value)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(PREFIX + name, text, registry=self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(PREFIX + name, text, registry=self._registry, buckets=SECONDS)
