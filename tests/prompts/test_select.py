from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings

from prompts.canned import CANNED
from prompts.conversation import Conversation
from prompts.formats import HERMES
from prompts.guard import GUARD
from prompts.select import OWN_TEMPLATES, choose
from prompts.traits import PLAIN, TemplateTraits
from server.errors import SetupError
from tests.prompts.helpers import (
    DIFFICULT,
    MARKERS,
    PICKY,
    SILENT,
    STRICT,
    conversations,
    facts,
    in_order,
    missing_words,
)

QWEN_LIKE = OWN_TEMPLATES["qwen2_5"].source
CHATML_WITHOUT_TOOLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_template_that_lists_tools_is_used_as_it_is() -> None:
    renderer = choose(facts(QWEN_LIKE), "auto")
    assert (renderer.template_name, renderer.row.name) == ("native", "hermes")
    assert renderer.traits == TemplateTraits()


def test_doubled_braces_in_the_listing_bring_in_ours() -> None:
    slip = QWEN_LIKE.replace('{"name": <function-name>', '{{ "{{" }}"name": <function-name>')
    assert '{{"name"' in choose(facts(slip), "native").render(CANNED["tools"])
    renderer = choose(facts(slip), "auto")
    assert renderer.template_name == "qwen2_5"
    assert '{{"name"' not in renderer.render(CANNED["tools"])


def test_doubled_braces_without_a_template_of_ours_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    renderer = choose(facts(PICKY + '{{ "{{" }}"name"'), "auto")
    assert renderer.template_name == "native"
    assert "doubled braces" in caplog.text


def test_chatml_without_tools_gets_our_chatml(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    renderer = choose(facts(CHATML_WITHOUT_TOOLS), "auto")
    assert (renderer.template_name, renderer.row.name) == ("chatml", "hermes")
    assert "chatml" in caplog.text


def test_no_template_gets_the_generic_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    renderer = choose(facts(None), "auto")
    assert (renderer.template_name, renderer.row.name) == ("generic", "generic")
    assert "no chat template" in caplog.text


@pytest.mark.parametrize(
    ("source", "ours"),
    [
        ("{{ raise_exception('never') }} <|im_start|>", "chatml"),
        ("{{ raise_exception('never') }} <|start_header_id|>", "llama3"),
        ("{{ raise_exception('never') }}", "generic"),
        ("{% if %}", "generic"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "generic",
        ),
        ("always the same", "generic"),
    ],
)
def test_an_unusable_template_is_replaced_and_logged(
    source: str, ours: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert choose(facts(source), "auto").template_name == ours
    assert "cannot be used" in caplog.text
    with pytest.raises(SetupError, match="cannot be used"):
        choose(facts(source), "native")


def test_a_template_without_tools_keeps_its_turns_and_gets_our_listing() -> None:
    renderer = choose(facts(SILENT), "auto")
    assert renderer.template_name == "native"
    assert renderer.row is HERMES
    prompt = renderer.render(CANNED["everything"])
    assert prompt.startswith("[system]quokka\n\n# Tools\n")
    assert '<tool_call>\n{"name": "NAME", "arguments": ARGUMENTS}\n</tool_call>' in prompt


def test_a_strict_template_is_given_plain_turns() -> None:
    renderer = choose(facts(STRICT), "auto")
    assert renderer.traits == PLAIN or renderer.traits.alternate
    prompt = renderer.render(CANNED["everything"])
    assert prompt.startswith("[user]quokka\n\n# Tools\n")


@pytest.mark.parametrize("setting", [*OWN_TEMPLATES, *DIFFICULT])
@settings(deadline=None)
@given(conversation=conversations())
def test_nothing_a_client_sent_is_lost(setting: str, conversation: Conversation) -> None:
    renderer = RENDERERS[setting]
    prompt = renderer.render(conversation)
    assert missing_words(conversation, prompt) == []
    assert in_order(conversation, prompt)
    assert prompt == renderer.render(conversation)


@pytest.mark.parametrize("name", CANNED)
@pytest.mark.parametrize("setting", OWN_TEMPLATES)
def test_text_of_clients_holds_no_special_token(setting: str, name: str) -> None:
    """The same prompt with and without markers in the texts has the same special tokens."""
    renderer = RENDERERS[setting]
    prompt = renderer.render(CANNED[name])
    hostile = renderer.render(_with_markers(CANNED[name]))
    for marker in MARKERS:
        assert hostile.count(marker) == prompt.count(marker)
    assert "".join(MARKERS) in hostile.replace(GUARD, "")


def _with_markers(conversation: Conversation) -> Conversation:
    text = "".join(MARKERS)
    messages = tuple(
        type(message)(
            message.role,
            message.content + text,
            tuple(type(call)(call.id + text, call.name, {text: [text]}) for call in message.calls),
            message.call_id and message.call_id + text,
            message.name,
        )
        for message in conversation.messages
    )
    tools = tuple(
        type(tool)(
            tool.name,
            tool.description + text,
            {**tool.parameters, "properties": {text: {"type": "string", "enum": [text]}}},
        )
        for tool in conversation.tools
    )
    return Conversation(messages, tools)


def test_a_file_is_a_template_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(PICKY)
    renderer = choose(facts(None), str(path))
    assert (renderer.template_name, renderer.row.name) == (str(path), "mistral_v3")


def test_what_cannot_be_chosen_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% if %}")
    binary = tmp_path / "binary.jinja"
    binary.write_bytes(b"\xff\xfe")
    large = tmp_path / "large.jinja"
    large.write_bytes(b"x" * 1_000_001)
    for setting, part in (
        ("native", "no chat template of its own"),
        ("qwen", "there is no prompt template 'qwen'"),
        (str(tmp_path / "none.jinja"), "cannot read the template"),
        (str(broken), "line 1"),
        (str(binary), "not UTF-8"),
        (str(large), "larger than"),
    ):
        with pytest.raises(SetupError, match=part):
            choose(facts(None), setting)


RENDERERS = {
    **{name: choose(facts(None), name) for name in OWN_TEMPLATES},
    **{name: choose(facts(source), "native") for name, source in DIFFICULT.items()},
}
