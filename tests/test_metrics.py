"""The metrics, by their names on the wire."""

from __future__ import annotations

import pytest

from server.engine.engine import Load
from server.engine.timings import Timings
from server.fit import QUESTION
from server.metrics import Metrics
from tests.serving import CHAT, ask, call, rig, started, tool


def _values(text: bytes) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_an_ended_request_is_counted_with_its_tokens_and_times() -> None:
    metrics = Metrics(lambda: Load(running=2, waiting=3, used_cells=25, cells=100))
    timings = Timings(
        queue_s=0.2, first_token_s=0.7, total_s=2.7, prompt_tokens=40, cached_tokens=30,
        prefilled_tokens=50, forced_tokens=4, drafted_tokens=3, accepted_tokens=2, output_tokens=9,
        forward_passes=6, constraint_s=0.1,
    )  # fmt: skip
    metrics.observe(timings, "stop")
    values = _values(metrics.text())
    assert values["callwright:num_requests_running"] == 2
    assert values["callwright:num_requests_waiting"] == 3
    assert values["callwright:kv_cache_usage_perc"] == 0.25
    assert values["callwright:prompt_tokens_total"] == 40
    assert values["callwright:prefix_cache_hits_total"] == 30
    assert values["callwright:prefix_cache_queries_total"] == 40
    assert values["callwright:generation_tokens_total"] == 9
    assert values["callwright:forced_tokens_total"] == 4
    assert values["callwright:spec_decode_num_draft_tokens_total"] == 3
    assert values["callwright:spec_decode_num_accepted_tokens_total"] == 2
    assert values["callwright:forward_passes_total"] == 6
    assert values["callwright:request_constraint_time_seconds_sum"] == 0.1
    assert values['callwright:request_success_total{finished_reason="stop"}'] == 1
    assert values["callwright:time_to_first_token_seconds_sum"] == 0.7
    assert values["callwright:request_decode_time_seconds_sum"] == 2.0


def test_a_request_without_a_token_has_no_time_to_its_first() -> None:
    metrics = Metrics(lambda: Load(0, 0, 0, 1))
    metrics.observe(Timings(total_s=1.0), "abort")
    values = _values(metrics.text())
    assert values["callwright:time_to_first_token_seconds_count"] == 0
    assert values["callwright:e2e_request_latency_seconds_count"] == 1


async def test_the_server_counts_what_it_answers() -> None:
    made = rig({"Hello": "hi"})
    async with started(made) as client:
        body = {"model": "test", "messages": [{"role": "user", "content": "Hello"}]}
        names = (await client.get("/v1/models")).json()["data"]
        reply = await client.post("/v1/chat/completions", json={**body, "model": names[0]["id"]})
        usage = reply.json()["usage"]
        values = _values((await client.get("/metrics")).content)
    assert values["callwright:generation_tokens_total"] == usage["completion_tokens"]
    assert values["callwright:prompt_tokens_total"] == usage["prompt_tokens"]
    assert values['callwright:request_success_total{finished_reason="stop"}'] == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_may_ask_where_its_time_went(stream: bool) -> None:
    made = rig({"Hello": "hi"})
    async with started(made) as client:
        for asked in (False, True):
            body = ask("Hello", stream=stream, include_timings=asked)
            text = (await client.post("/v1/chat/completions", json=body)).text
            assert ('"timings"' in text) == asked
    assert '"forward_passes":' in text
    assert '"total_s":' in text


async def test_a_stop_string_is_a_stop() -> None:
    body = ask("Hello", stop=["three"], include_timings=True)
    async with started(rig({"Hello": "one two three four"})) as client:
        reply = (await client.post(CHAT, json=body)).json()
        await client.post(CHAT, json=body)  # by then the first has ended in the engine too
        values = _values((await client.get("/metrics")).content)
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["timings"]["total_s"] > 0
    assert reply["timings"]["output_tokens"] == reply["usage"]["completion_tokens"] > 0
    assert values['callwright:request_success_total{finished_reason="stop"}'] >= 1
    assert 'callwright:request_success_total{finished_reason="abort"}' not in values


async def test_the_fit_question_is_no_request_of_its_own() -> None:
    made = rig({"weather": "no idea", QUESTION: "no"}, fit_question=True)
    body = ask("weather", tools=[tool("get_weather")], include_timings=True)
    async with started(made) as client:
        reply = (await client.post(CHAT, json=body)).json()
        values = _values((await client.get("/metrics")).content)
    assert reply["timings"]["fit_margin"] < 0
    assert values["callwright:e2e_request_latency_seconds_count"] == 1
    assert values["callwright:prompt_tokens_total"] == reply["usage"]["prompt_tokens"]


async def test_the_constraint_has_its_share_of_the_time() -> None:
    made = rig({"weather": call("get_weather", '{"city": "Porto"}')})
    body = ask("weather", tools=[tool("get_weather")], include_timings=True)
    async with started(made) as client:
        timings = (await client.post(CHAT, json=body)).json()["timings"]
    assert 0 < timings["constraint_s"] < timings["total_s"]
    assert timings["compile_s"] > 0
