"""The templates of many families, where someone has put them (see `helpers.OFFICIAL`)."""

from __future__ import annotations

import json
import logging
from functools import cache

import pytest
from hypothesis import given, settings

from prompts.canned import CALL, CANNED
from prompts.conversation import Conversation, Message, PastCall, Tool
from prompts.formats import render_calls
from prompts.guard import GUARD
from prompts.render import Renderer
from prompts.select import choose
from server.output import OutputParser
from server.payloads.choice import parameters_of
from server.schema.prepare import prepare
from server.surface import surfaces
from tests.driving import fold
from tests.prompts.helpers import OFFICIAL, conversations, facts, in_order, missing_words

NAMES = sorted(path.stem for path in OFFICIAL.glob("*.jinja"))
# For templates that know no calls at all, or write them as no row does, they are <tool_call> text.
ROW_OF = {
    "Apertus-8B-Instruct": "apertus",
    "Apriel-1.6-15b-Thinker-fixed": "apriel",
    "Bielik-11B-v3.0-Instruct": "hermes",
    "ByteDance-Seed-OSS": "seed_oss",
    "Cohere2MoE": "cohere2_moe",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command_a",
    "GLM-4.6": "glm45",
    "GLM-4.7-Flash": "glm47",
    "GigaChat3-10B-A1.8B": "gigachat3",
    "GigaChat3.1-10B-A1.8B": "gigachat31",
    "Kimi-K2-Instruct": "kimi_k2",
    "Kimi-K2-Thinking": "kimi_k2",
    "Kimi-K3": "kimi_k3",
    "LFM2-8B-A1B": "lfm2",
    "LFM2.5-8B-A1B": "lfm2",
    "LFM2.5-Instruct": "lfm2",
    "MiMo-VL": "hermes",
    "MiniMax-M1": "tool_calls_lines",
    "MiniMax-M2": "minimax_m2",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral_v11",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen_xml",
    "NVIDIA-Nemotron-Nano-v2": "nemotron_v2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
    "Qwen-QwQ-32B": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3-Coder": "qwen_xml",
    "Qwen3.5-4B": "qwen_xml",
    "Reka-Edge": "hermes",
    "Spark2.5": "glm47",
    "StepFun3.5-Flash": "qwen_xml",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek_v3",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v31",
    "deepseek-ai-DeepSeek-V3.2": "deepseek_dsml",
    "deepseek-ai-DeepSeek-V4": "deepseek_v4",
    "deepseek-ai-DeepSeek-V4-Flash-0731": "deepseek_v4",
    "google-gemma-4-31B-it": "gemma4",
    "google-gemma-4-31B-it-interleaved": "gemma4",
    "ibm-granite-granite-3.3-2B-Instruct": "granite3",
    "ibm-granite-granite-4.0": "hermes",
    "ibm-granite-granite-4.1": "hermes",
    "inclusionai-ling-3.0-flash": "ling3",
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
    "openbmb-MiniCPM5-1B": "minicpm5",
    "poolside-Laguna-S-2.1": "glm47",
    "poolside-Laguna-XS-2.1": "glm45",
    "poolside-Laguna-XS.2": "glm45",
    "tencent-Hy3": "hy3",
    "unsloth-Apriel-1.5": "apriel",
    "unsloth-mistral-Devstral-Small-2507": "mistral_v13",
    "upstage-Solar-Open-100B": "solar_open",
}
# Wants variables of its own; one of ours with the same turns stands in.
REPLACED = {"fireworks-ai-llama-3-firefunction-v2": "llama3"}

# They show the text of a message that calls after its calls and their results.
TEXT_AFTER_CALLS = {"google-gemma-4-31B-it", "google-gemma-4-31B-it-interleaved"}
DROP_CALLS = {"ibm-granite-granite-3.3-2B-Instruct", "LFM2-8B-A1B", "LFM2.5-Instruct"}
# They write values as Python does, which the constraint keeps their models from.
APRIEL = ("Apriel-1.6-15b-Thinker-fixed", "unsloth-Apriel-1.5")
PYTHON_WITHIN = {"ByteDance-Seed-OSS", "openbmb-MiniCPM5-1B", *APRIEL}
ARGUMENTS = {
    "place": 'Zürich "x" & <b>',
    "days": 3,
    "near": True,
    "tags": ["a", "b c"],
    "more": {"deep": [1, None], "x": "y"},
}
VARIED = Tool(
    "weather_probe",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "description": "How many."},
            "near": {"type": "boolean", "description": "Whether near."},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Which."},
            "more": {"type": "object", "additionalProperties": True, "description": "More."},
        },
        "required": ["place"],
    },
)

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
    if name in DROP_CALLS:
        pytest.skip("it drops calls from the history")
    chosen = renderer(name)
    assert chosen.traits.calls == "native"
    call = CALL
    if chosen.row.ids == "kimi":
        call = type(CALL)(f"functions.{CALL.name}:0", CALL.name, CALL.arguments)
    assert render_calls(chosen.row, [call]) in chosen.render(CANNED["call"])


@pytest.mark.parametrize("name", ROW_OF if NAMES else ["none"])
def test_what_the_template_writes_is_read_as_the_call_that_it_was(name: str) -> None:
    if name in PYTHON_WITHIN:
        pytest.skip("it writes nested values as Python does")
    chosen = renderer(name)
    call = PastCall("a1b2c3d4e", VARIED.name, ARGUMENTS)
    talk = (
        Message("user", "wombat"),
        Message("assistant", calls=(call,)),
        Message("tool", "bandicoot", call_id=call.id, name=call.name),
    )
    prompt = chosen.render(Conversation(talk, (VARIED,))).replace(GUARD, "")
    written = prompt[prompt.index("wombat") :]
    prepared = prepare(VARIED.parameters, arguments=True)
    parser = OutputParser(
        surfaces(chosen.row),
        names=[VARIED.name],
        new_id=str,
        token_markers=[way.marker or way.call[:4] for way in surfaces(chosen.row)],
        parameters={VARIED.name: parameters_of(prepared.grammar, prepared.checker)},
    )
    folded = fold(parser.feed(written.encode()))
    ((tool, arguments),) = folded.calls
    assert (tool, json.loads(arguments)) == (VARIED.name, ARGUMENTS)


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
    assert name in TEXT_AFTER_CALLS or in_order(conversation, prompt)
    assert prompt == renderer(name).render(conversation)
