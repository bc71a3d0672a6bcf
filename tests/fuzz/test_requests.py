"""Any messages, tools and schemas, with a model that says anything: nothing wrong comes out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import httpx
import pytest
from hypothesis import strategies as st

from tests.fuzz.answers import check_answer
from tests.fuzz.rounds import HANGS_S, fuzz, noise
from tests.random_schemas import SchemaMaker
from tests.serving import CHAT, MODEL, Live, live, rig
from tests.wire.test_fuzz import anything, body, loose, message, schema, turn

SHARE = 0.25  # of the time, for each of these


@pytest.fixture
def serving() -> Iterator[Live]:
    with live(rig(noise, context_length=3000, max_sequences=4)) as started:
        yield started


def patient(serving: Live) -> httpx.Client:
    return httpx.Client(base_url=serving.url, timeout=HANGS_S, trust_env=False)


def post(client: httpx.Client, path: str, body: Any) -> httpx.Response:
    return client.post(path, content=json.dumps(body).encode())  # also what JSON does not allow


def _tool(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


random_schemas = st.integers(0, 2**32).map(lambda seed: SchemaMaker(Random(seed)).parameters())
schemas = random_schemas | random_schemas | random_schemas | schema
tools = st.lists(schemas, min_size=1, max_size=3).map(
    lambda made: [_tool(f"look{i}", one) for i, one in enumerate(made)]
)
formats = schemas.map(
    lambda one: {"type": "json_schema", "json_schema": {"name": "x", "schema": one}}
)
question = st.just([{"role": "user", "content": "What is it?"}])
sampled = {
    "stream": st.booleans(),
    "temperature": st.floats(0, 2),
    "seed": st.integers(0, 9),
    "stop": st.text(min_size=1, max_size=2),
    "n": st.integers(1, 3),
    "logprobs": st.booleans(),
    "logit_bias": st.dictionaries(st.integers(0, 260).map(str), st.integers(-100, 100), max_size=3),
}
asked = {
    "model": st.just(MODEL),
    "messages": question | st.lists(message | turn, min_size=1, max_size=4),
    "max_tokens": st.integers(1, 300),
}
calling = st.fixed_dictionaries(
    {**asked, "tools": tools},
    optional={
        **sampled,
        "tool_choice": st.sampled_from(["auto", "required", "required", "none"]),
        "parallel_tool_calls": st.booleans(),
    },
)
answering = st.fixed_dictionaries(
    asked, optional={**sampled, "response_format": formats, "tools": tools}
)
sensible = calling | calling | answering
HERE = {"model": MODEL, "max_tokens": 40}
wild = body.map(lambda made: {**made, **HERE} if isinstance(made, dict) else made)


@pytest.mark.parametrize("strategy", [sensible, wild], ids=["sensible", "wild"])
def test_chat(
    strategy: st.SearchStrategy[Any],
    serving: Live,
    seconds: float,
    tell: Callable[[str], None],
) -> None:
    seen: Counter[str] = Counter()
    with patient(serving) as client:

        def check(asked: Any) -> None:
            check_answer(post(client, CHAT, asked), asked, seen)

        tried = fuzz(strategy, check, seconds * SHARE)
        assert client.get("/health").json()["running"] == 0
    tell(f"{tried}, {dict(seen)}")
    assert seen["200"] > 0 or strategy is wild


other = st.tuples(
    st.sampled_from(["/v1/completions", "/tokenize", "/detokenize", "/v1/responses"]),
    loose(
        model=st.just(MODEL),
        prompt=anything | st.text() | st.lists(st.integers(0, 300)) | st.lists(st.text()),
        content=anything,
        tokens=anything | st.lists(st.integers(-1, 300)),
        input=anything | st.text(),
        messages=st.lists(message, max_size=2),
        max_tokens=st.integers(1, 40),
        max_output_tokens=st.integers(1, 40),
        response_format=formats,
        stream=st.booleans(),
        n=st.integers(0, 3),
        echo=anything,
        stop=anything,
        logit_bias=anything,
    ),
)


def test_other_routes(serving: Live, seconds: float, tell: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()
    with patient(serving) as client:

        def check(asked: tuple[str, Any]) -> None:
            path, content = asked
            check_answer(post(client, path, content), None, seen)

        tried = fuzz(other, check, seconds * SHARE)
        assert client.get("/health").json()["running"] == 0
    tell(f"{tried}, {dict(seen)}")
