from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prompts.budget import Limits, TemplateTooCostly
from prompts.canned import CANNED
from prompts.formats import HERMES
from prompts.guard import Guard
from prompts.probe import probe, shows
from prompts.render import Listing, Renderer
from prompts.sandbox import LIMITS, ChatTemplate
from prompts.select import choose
from prompts.traits import PLAIN, TemplateTraits
from tests.prompts.helpers import DIFFICULT, facts


@pytest.mark.parametrize(
    ("habit", "expected"),
    [
        (
            "strict",
            {
                "tools": "ours",
                "calls": "text",
                "results": "user",
                "system": "first_user",
                "alternate": True,
                "user_first": True,
            },
        ),
        ("silent", {"tools": "ours", "calls": "text", "results": "user"}),
        (
            "text arguments",
            {"arguments": "text", "empty_content": "null", "text_beside_calls": "before"},
        ),
        (
            "picky",
            {
                "results": "user",
                "text_beside_calls": "before",
                "user_after_result": "text",
                "system": "first",
            },
        ),
        ("one call", {"no_tools": "absent", "parallel": "single"}),
    ],
)
def test_each_bad_habit_is_found(habit: str, expected: dict[str, Any]) -> None:
    found = choose(facts(DIFFICULT[habit]), "native").traits
    assert found == replace(TemplateTraits(), **expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # The system text only in the last user message, if that is the last message at all.
        (
            "{% for m in messages %}{% if m.role == 'user' %}[user]{% if loop.last %}"
            "{{ messages | selectattr('role', 'equalto', 'system') | map(attribute='content')"
            " | join }}{% endif %}{{ m.content }}{% elif m.role != 'system' %}{{ m.content }}"
            "{% endif %}{% endfor %}",
            {"system": "last_user"},
        ),
        # Every content is a list of parts.
        (
            "{% for m in messages %}[{{ m.role }}]{% for part in m.content %}{{ part.text }}"
            "{% endfor %}{% endfor %}",
            {"content": "parts"},
        ),
        # An answer must say something.
        (
            "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if not m.content %}"
            "{{ raise_exception('empty') }}{% endif %}{% endfor %}",
            {"drop_empty": True},
        ),
        # Parameters without a type are left out.
        (
            "{% for t in tools or [] %}{{ t.function.name }} {{ t.function.description }}"
            "{% for k, v in t.function.parameters.properties.items() if v.type is string %}"
            "{{ k }} {{ v.description }}{% endfor %}{% endfor %}"
            "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
            '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": '
            "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}",
            {"tool_schemas": "typed"},
        ),
    ],
)
def test_further_habits(source: str, expected: dict[str, Any]) -> None:
    found = choose(facts(source), "native").traits
    assert {name: getattr(found, name) for name in expected} == expected


def renderer(source: str, limits: Limits = LIMITS) -> Renderer:
    template, listing = ChatTemplate(source, limits), Listing(ChatTemplate("{{ tools | tojson }}"))
    return Renderer("t", template, HERMES, facts(source), TemplateTraits(), Guard(()), listing)


def test_a_template_that_loses_even_plain_turns_has_no_traits() -> None:
    assert probe(renderer("[{{ messages[0].content }}]"), TemplateTraits()) is None


def test_whatever_was_found_shows_every_canned_conversation() -> None:
    for source in DIFFICULT.values():
        chosen = choose(facts(source), "native")
        assert all(shows(chosen, chosen.traits, name) for name in CANNED)


def test_a_template_that_takes_too_long_is_given_up_at_once() -> None:
    slow = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    with pytest.raises(TemplateTooCostly):
        probe(renderer(slow, Limits(max_steps=1000)), TemplateTraits())


def test_the_plainest_shape_is_tried_last() -> None:
    # Takes two turns in a row, but never more than eight messages with a system text among them.
    source = (
        "{% if messages | length > 7 and messages[0].role == 'system' %}"
        "{{ raise_exception('long') }}{% endif %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    start = TemplateTraits(tools="ours", calls="text")
    assert probe(renderer(source), start) == PLAIN
