"""The templates of many families, where someone has put them (see `helpers.OFFICIAL`)."""

from __future__ import annotations

import logging
from functools import cache

import pytest
from hypothesis import given, settings

from prompts.canned import CALL, CANNED
from prompts.conversation import Conversation
from prompts.formats import render_calls
from prompts.render import Renderer
from prompts.select import choose
from tests.prompts.helpers import OFFICIAL, conversations, facts, in_order, missing_words

NAMES = sorted(path.stem for path in OFFICIAL.glob("*.jinja"))
# Families whose calls are no JSON: their rows are still to come. Until then, and for templates
# that know no calls at all, the calls are <tool_call> text.
ROW_OF = {
    "Apertus-8B-Instruct": "apertus",
    "Apriel-1.6-15b-Thinker-fixed": "apriel",
    "Bielik-11B-v3.0-Instruct": "hermes",
    "Cohere2MoE": "command_a",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command_a",
    "GigaChat3-10B-A1.8B": "gigachat3",
    "GigaChat3.1-10B-A1.8B": "gigachat31",
    "Kimi-K2-Instruct": "kimi_k2",
    "Kimi-K2-Thinking": "kimi_k2",
    "MiMo-VL": "hermes",
    "MiniMax-M1": "tool_calls_lines",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral_v11",
    "NVIDIA-Nemotron-Nano-v2": "nemotron_v2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
    "Qwen-QwQ-32B": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "hermes",
    "Reka-Edge": "hermes",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek_v3",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v31",
    "ibm-granite-granite-3.3-2B-Instruct": "granite3",
    "ibm-granite-granite-4.0": "hermes",
    "ibm-granite-granite-4.1": "hermes",
    "llama-cpp-deepseek-r1": "deepseek_v3",
    "meetkai-functionary-medium-v3.1": "functionary_v31",
    "meetkai-functionary-medium-v3.2": "functionary_v32",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3_json",
    "meta-llama-Llama-3.2-3B-Instruct": "llama3_json",
    "meta-llama-Llama-3.3-70B-Instruct": "llama3_json",
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral_v13",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral_v3",
    "moonshotai-Kimi-K2": "kimi_k2",
    "openai-gpt-oss-120b": "harmony",
    "unsloth-Apriel-1.5": "apriel",
    "unsloth-mistral-Devstral-Small-2507": "mistral_v13",
    "upstage-Solar-Open-100B": "solar_open",
}
# Wants variables of its own; one of ours with the same turns stands in.
REPLACED = {"fireworks-ai-llama-3-firefunction-v2": "llama3"}

pytestmark = pytest.mark.skipif(not NAMES, reason=f"no official templates in {OFFICIAL}")
official = pytest.mark.parametrize("name", NAMES or ["none"])


@cache
def renderer(name: str) -> Renderer:
    source = (OFFICIAL / f"{name}.jinja").read_text("utf-8")
    return choose(facts(source), "auto" if name in REPLACED else "native")


@official
def test_the_format_is_recognised(name: str) -> None:
    if name in REPLACED:
        assert renderer(name).template_name == REPLACED[name]
    else:
        assert renderer(name).row.name == ROW_OF.get(name, "hermes")


@pytest.mark.parametrize("name", ROW_OF if NAMES else ["none"])
def test_the_template_itself_writes_the_calls_of_a_known_format(name: str) -> None:
    if name == "ibm-granite-granite-3.3-2B-Instruct":
        pytest.skip("it drops calls from the history")
    chosen = renderer(name)
    assert chosen.traits.calls == "native"
    call = CALL
    if chosen.row.ids == "kimi":
        call = type(CALL)(f"functions.{CALL.name}:0", CALL.name, CALL.arguments)
    assert render_calls(chosen.row, [call]) in chosen.render(CANNED["call"])


@official
def test_nothing_is_lost_and_nothing_is_refused(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = renderer(name)
    caplog.clear()
    caplog.set_level(logging.WARNING)
    for conversation in CANNED.values():
        prompt = chosen.render(conversation)
        assert missing_words(conversation, prompt) == []
    assert caplog.text == ""


@official
@settings(max_examples=20, deadline=None)
@given(conversation=conversations())
def test_nothing_is_lost_of_any_ordinary_conversation(
    name: str, conversation: Conversation
) -> None:
    prompt = renderer(name).render(conversation)
    assert missing_words(conversation, prompt) == []
    assert in_order(conversation, prompt)
    assert prompt == renderer(name).render(conversation)
