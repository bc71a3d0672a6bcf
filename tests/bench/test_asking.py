from __future__ import annotations

import json

import httpx

from prompts.bench.cases import Case
from prompts.bench.results import Answer, Arm
from server.bench.asking import Asker, is_callwright
from server.bench.client import TIMEOUT
from server.bench.peers import free_port
from server.commands.remote import base_url
from tests.bench.helpers import fake_server
from tests.fakes import Scripts
from tests.prompts.bench.samples import case
from tests.serving import call, live, rig

PORTO = call("get_weather", '{"city": "Porto"}')
ARM = Arm("scripted")
# The scripted model's vocabulary is bytes: one short tool keeps the prompt in its context.
SHORT = {
    "name": "get_weather", "description": "Weather.",
    "parameters": {"type": "dict", "properties": {"city": {"type": "string"}}, "required": []},
}  # fmt: skip


def one_case() -> Case:
    return case({"get_weather": {"city": ["Porto"]}}, functions=[SHORT])


async def asked(url: str, arm: Arm, *, is_ours: bool = True) -> Answer:
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT) as http:
        return await Asker(http, base_url(url), is_ours=is_ours, max_tokens=90)(arm, one_case())


async def test_a_call_with_its_times() -> None:
    with live(rig({"": PORTO})) as server:
        assert is_callwright(base_url(server.url), {})
        answer = await asked(server.url, ARM)
    assert answer.error is None
    assert [(name, json.loads(text)) for name, text in answer.calls] == [
        ("get_weather", {"city": "Porto"})
    ]
    assert answer.first_s is not None
    assert answer.first_s <= answer.wall_s
    assert answer.output_tokens
    assert answer.cached_tokens == 0
    assert answer.prompt
    assert answer.prompt.endswith("Weather in Porto?<|im_end|>\n<|im_start|>assistant\n")
    assert answer.forward_passes


async def test_the_baseline_continues_the_same_prompt_as_text() -> None:
    with live(rig({"": "It is sunny."})) as server:
        held = await asked(server.url, ARM)
        free = await asked(server.url, Arm("scripted", constrained=False))
    assert (free.text, free.calls, free.error) == ("It is sunny.", (), None)
    assert free.prompt_tokens == held.prompt_tokens
    assert free.prompt == held.prompt
    assert free.cached_tokens  # the same prompt was there before


async def test_the_baseline_ends_where_the_template_ends_a_turn() -> None:
    says = Scripts({"": "It is sunny.\n### User: more"}, "### Assistant\n")
    with live(rig(says)) as server:
        free = await asked(server.url, Arm("scripted", "generic", constrained=False))
    assert (free.text, free.error, free.cut) == ("It is sunny.", None, False)


async def test_what_a_server_refuses_is_the_answers_error() -> None:
    with live(rig({"": PORTO})) as server:
        answer = await asked(server.url, Arm("scripted", "no-such-template"))
    assert answer.error
    assert "no-such-template" in answer.error


async def test_other_servers_are_not_asked_for_timings() -> None:
    with fake_server() as server:
        assert not is_callwright(base_url(server.url), {})
        answer = await asked(server.url, ARM, is_ours=False)
    assert (answer.forward_passes, answer.prompt) == (None, None)
    assert "include_timings" not in server.bodies[0]


async def test_a_server_that_is_not_there() -> None:
    answer = await asked(f"http://127.0.0.1:{free_port()}", ARM)
    assert answer.error
