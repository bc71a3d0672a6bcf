from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.canned import CANNED
from prompts.conversation import Conversation, Message, Tool
from prompts.guard import CUT, GUARD
from prompts.render import Renderer
from prompts.select import choose
from server.errors import InvalidRequest
from tests.prompts.helpers import STRICT, WEATHER, facts, user

QWEN = choose(facts(), "qwen2_5")
THINKING = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}"
    "[assistant]<think>\n{% if enable_thinking is false %}\n</think>\n\n{% endif %}{% endif %}"
)


def native(source: str) -> Renderer:
    return choose(facts(source), "native")


def test_template_options_reach_the_template() -> None:
    source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ mood }}"
    conversation = replace(user("hi"), template_options={"mood": "calm <|im_end|>"})
    assert native(source).render(conversation) == f"[user]hicalm <{GUARD}|im_end|>"


@pytest.mark.parametrize(
    "name", ["messages", "tools", "bos_token", "add_generation_prompt", "raise_exception"]
)
def test_an_option_cannot_replace_what_the_server_sets(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        QWEN.render(replace(user("hi"), template_options={name: []}))
    assert caught.value.param == f"chat_template_kwargs.{name}"


@pytest.mark.parametrize("options", [{"mood": "calm"}, {"self": 1}, {"the budget": 1}, {"0": 1}])
def test_odd_option_names_do_no_harm(options: dict[str, Any]) -> None:
    conversation = user("hi")
    expected = QWEN.render(conversation)
    assert QWEN.render(replace(conversation, template_options=options)) == expected


def test_the_prompt_ends_where_the_answer_begins() -> None:
    assert QWEN.render(user("hi")).endswith(
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


@given(st.text(max_size=20).filter(lambda text: text not in ("",)))
def test_a_continued_answer_ends_in_its_text(text: str) -> None:
    conversation = Conversation((Message("user", "hi"), Message("assistant", text)))
    for renderer in (QWEN, native(STRICT)) if text.isalpha() else (QWEN,):
        prompt = renderer.render(conversation, continue_final=True)
        said = text.replace(GUARD, "").replace(CUT, "")
        assert prompt.replace(GUARD, "").endswith(said)
        assert CUT not in prompt
        assert "<|im_end|>" not in prompt.rpartition("assistant\n")[2]


def test_an_empty_answer_can_be_continued() -> None:
    conversation = Conversation((Message("user", "hi"), Message("assistant")))
    assert QWEN.render(conversation, continue_final=True) == QWEN.render(user("hi"))


def test_only_a_text_of_the_assistant_can_be_continued() -> None:
    for conversation in (user("hi"), CANNED["call"], Conversation(())):
        with pytest.raises(InvalidRequest, match="continued"):
            QWEN.render(conversation, continue_final=True)


def test_a_template_that_hides_the_last_answer_cannot_continue_it() -> None:
    source = (
        "{% for m in messages %}{% if m.role != 'assistant' or not loop.last %}"
        "[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"
    )
    conversation = Conversation((Message("user", "hi"), Message("assistant", "yes")))
    with pytest.raises(InvalidRequest, match="does not show") as caught:
        native(source).render(conversation, continue_final=True)
    assert caught.value.param == "messages[1]"


def test_reasoning_is_open_only_where_the_prompt_leaves_it_open() -> None:
    renderer = native(THINKING)
    assert renderer.thinking(renderer.render(user("hi"))) == "inside"
    off = replace(user("hi"), template_options={"enable_thinking": False})
    assert renderer.thinking(renderer.render(off)) is None
    none = replace(user("hi"), template_options={"reasoning_effort": "none"})
    assert renderer.render(none) == renderer.render(off)
    assert QWEN.thinking(QWEN.render(user("<think>"))) is None
    assert renderer.thinking("[user]hi[assistant]") == "possible"
    generic = choose(facts(), "generic")
    assert generic.thinking(generic.render(user("hi"))) is None


def test_bos_is_put_in_front_once() -> None:
    adds = replace(facts(), adds_bos=True)
    assert choose(adds, "generic").render(user("hi")).startswith("<bos>### User")
    assert choose(adds, "llama3").render(user("hi")).count("<bos>") == 1
    assert not choose(facts(), "generic").render(user("hi")).startswith("<bos>")


def test_a_template_that_refuses_the_tools_of_a_request_gets_them_as_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = QWEN.template.source + (
        "{% if tools and tools[0].function.name == 'odd' %}{{ raise_exception('odd') }}{% endif %}"
    )
    renderer = native(source)
    assert renderer.traits.tools == "native"
    prompt = renderer.render(Conversation((Message("user", "x"),), (replace(WEATHER, name="odd"),)))
    assert '{"name": "odd", "description": "Weather of a city."' in prompt
    assert "refused a conversation: odd" in caplog.text


def test_a_conversation_that_no_shape_helps_is_refused_in_one_line() -> None:
    source = QWEN.template.source + (
        "{% if messages[-1].content == 'boo' %}{{ raise_exception('no boo,\nplease') }}{% endif %}"
    )
    with pytest.raises(InvalidRequest) as caught:
        native(source).render(user("boo"))
    assert caught.value.param == "messages"
    assert caught.value.message == (
        "the chat template native cannot show this conversation: no boo,"
    )


def test_a_tool_with_an_odd_schema_is_listed_by_us_where_the_template_would_lose_it() -> None:
    renderer = replace(QWEN, traits=replace(QWEN.traits, tool_schemas="typed"))
    typed = Conversation((Message("user", "x"),), (WEATHER,))
    assert renderer.render(typed) == QWEN.render(typed)
    odd = Tool("f", "", {"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
    prompt = renderer.render(Conversation((Message("user", "x"),), (odd,)))
    assert "You can call these functions." in prompt


def test_our_listing_shows_two_calls_where_calls_share_a_section() -> None:
    (message,) = (Message("user", "x"),)
    conversation = Conversation((message,), (WEATHER,))
    source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{# functools[ #}"
    prompt = native(source).render(conversation)
    assert 'functools[{"name": "NAME", "arguments": ARGUMENTS}, {"name": "NAME2"' in prompt
    assert "one such call after the other" not in prompt
