"""The application without weights: scripted model, real engine, constraint, renderer and HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from prompts.facts import ModelFacts
from server.app import create_app
from server.bodies import Bodies
from server.chat import ChatService
from server.commands.serve import listen, make_server, url_of
from server.completion import CompletionService
from server.config import Settings
from server.constraint import ConstraintCompiler
from server.engine.engine import Engine, EngineOptions
from server.fit import FitJudge
from server.metrics import Metrics
from server.parts import Parts
from server.renderers import Renderers
from server.responses.service import ResponsesService
from server.responses.store import open_store
from tests.fakes import WAIT_S, Gate, NextToken, ScriptedRunner, Scripts, byte_vocabulary

MODEL = "scripted"
CHAT = "/v1/chat/completions"
# ChatML as Qwen2.5 has it, with as few tokens as will do.
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n"
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}"
    """<tool_call>\n{"name": "{{ call.function.name }}", "arguments": """
    "{{ call.function.arguments | tojson }}}\n</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if thinking %}<think>\n{% endif %}"
    "{% endif %}"
)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    function = {"name": name, "parameters": CITY if parameters is None else parameters}
    return {"type": "function", "function": function}


def call(name: str, arguments: str) -> str:
    """A call as the model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def ask(text: str, **fields: Any) -> dict[str, Any]:
    """The body of a request with one question."""
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


def settings(**values: Any) -> Settings:
    """Settings that do not depend on the environment in which the tests run."""
    fields = Settings.model_fields.items()
    defaults = {
        name: info.get_default(call_default_factory=True, validated_data={})
        for name, info in fields
    }
    return Settings(**{**defaults, "fast_copy": False, **values})  # there is no file to copy


@dataclass(frozen=True)
class Rig:
    """An application and the scripted model inside it."""

    app: FastAPI
    parts: Parts
    runner: ScriptedRunner

    @property
    def load(self) -> tuple[int, int]:
        """Requests that run and that wait."""
        return self.parts.engine.load.running, self.parts.engine.load.waiting


@functools.cache
def _renderers() -> Renderers:
    special = tuple(byte_vocabulary().special_ids)
    facts = ModelFacts(MODEL, TEMPLATE, bos="", eos="<|endoftext|>", special_tokens=special)
    return Renderers(facts, "native")


def rig(
    says: Mapping[str, str] | NextToken,
    *,
    gate: Gate | None = None,
    context_length: int = 4096,
    max_sequences: int = 4,
    call_biases: Mapping[str, float] | None = None,
    more_calls_biases: Mapping[str, float] | None = None,
    fit_questions: Sequence[str] = (),
    affinity_weights: Mapping[str, float] | None = None,
    **values: Any,
) -> Rig:
    """`says`: what the model answers, by a text in the prompt, or token by token. Nothing is left
    to chance.
    """
    values = {"temperature": 0, **values}
    options = EngineOptions(
        max_sequences=max_sequences,
        cached_sequences=4,
        batch_tokens=64,
        queue_length=values.get("queue_length", 64),
        draft_tokens=values.get("draft_tokens", 0),
    )
    runner = ScriptedRunner(
        Scripts(says) if isinstance(says, Mapping) else says,
        context_length=context_length,
        sequences=options.slots,
        gate=gate,
    )
    metrics = Metrics(lambda: engine.load)
    engine = Engine(runner, options, metrics.observe)
    compiler = ConstraintCompiler(runner.vocabulary, can_retry=True)
    made = settings(**values)
    chat = ChatService(
        made,
        engine=engine,
        compiler=compiler,
        vocabulary=runner.vocabulary,
        renderers=_renderers(),
        context_length=context_length,
        call_biases=call_biases or {},
        more_calls_biases=more_calls_biases or {},
        fit=FitJudge(
            made,
            engine,
            runner.vocabulary,
            questions=fit_questions,
            affinity_weights=affinity_weights or {},
            context_length=context_length,
        ),
    )
    completion = CompletionService(
        made,
        engine=engine,
        compiler=compiler,
        vocabulary=runner.vocabulary,
        context_length=context_length,
    )
    parts = Parts(
        settings=made,
        engine=engine,
        compiler=compiler,
        chat=chat,
        completion=completion,
        responses=ResponsesService(made, chat=chat, store=open_store(made)),
        metrics=metrics,
        vocabulary=runner.vocabulary,
        context_length=context_length,
        model_names=(MODEL, *made.alias),
        bodies=Bodies(made.max_body_bytes),
    )
    return Rig(create_app(parts), parts, runner)


@contextlib.asynccontextmanager
async def started(made: Rig) -> AsyncIterator[httpx.AsyncClient]:
    """The application inside this event loop; a client gets its answers in one piece."""
    transport = httpx.ASGITransport(made.app, raise_app_exceptions=False)
    async with (
        made.app.router.lifespan_context(made.app),
        httpx.AsyncClient(transport=transport, base_url="http://test", timeout=WAIT_S) as client,
    ):
        yield client
    made.runner.check()


@dataclass(frozen=True)
class Live:
    """The application behind a real socket."""

    rig: Rig
    server: uvicorn.Server
    address: tuple[str, int]
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return url_of(*self.address)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=WAIT_S, trust_env=False)


@contextlib.contextmanager
def live(made: Rig) -> Iterator[Live]:
    """The application as `callwright serve` runs it, on a free port, in a thread."""
    with listen("127.0.0.1", 0) as listener:
        serving = Live(made, make_server(made.parts), listener.getsockname()[:2])

        def run() -> None:
            serving.server.run(sockets=[listener])
            serving.ended.set()

        thread = threading.Thread(target=run, name="uvicorn")
        thread.start()
        try:
            yield serving
        finally:
            serving.server.should_exit = True
            thread.join(WAIT_S)
            assert not thread.is_alive()
    made.runner.check()


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait until `true()` holds."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, f"still not so: {what}"
        time.sleep(0.01)


@dataclass(frozen=True)
class Chunk:
    """One server-sent event; `data` is parsed unless it is `[DONE]`."""

    event: str
    data: Any


def parse_stream(text: str) -> list[Chunk]:
    """The events of a stream; comments are left out."""
    assert text.endswith("\n\n")
    chunks = []
    for block in text[:-2].split("\n\n"):
        event, data = "message", []
        for line in block.split("\n"):
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data.append(line.removeprefix("data: "))
            else:
                assert line.startswith(":"), line
        if data:
            joined = "\n".join(data)
            chunks.append(Chunk(event, joined if joined == "[DONE]" else json.loads(joined)))
    return chunks


async def soon(true: Callable[[], bool], what: str) -> None:
    """As `wait_until`, inside an event loop."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, f"still not so: {what}"
        await asyncio.sleep(0.01)
