from __future__ import annotations

import json
import re

import pytest

from prompts.budget import Limits, TemplateTooCostly
from prompts.detect import recognise
from prompts.formats import GENERIC, ROWS, ToolFormat
from prompts.guard import Guard
from prompts.payloads import Keywords, Payload, Quoted, Tags
from prompts.render import Listing, Renderer
from prompts.sandbox import ChatTemplate
from prompts.traits import TemplateTraits
from tests.prompts.helpers import DIFFICULT, facts

BARE = '<x>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</x>'
LISTING = Listing(ChatTemplate("LISTING"))


def renderer(source: str, limits: Limits | None = None) -> Renderer:
    template = ChatTemplate(source, limits) if limits else ChatTemplate(source)
    return Renderer("t", template, GENERIC, facts(source), TemplateTraits(), Guard(()), LISTING)


def template_of(row: ToolFormat) -> str:
    """A template that writes its calls as the row says."""
    written = {
        "name": "{{ c.function.name }}",
        "args": arguments_of(row.args),
        "id": "{{ c.id }}",
        "i": "{{ loop.index0 }}",
        "i1": "{{ loop.index }}",
    }
    pieces = re.split("«([a-z0-9]+)»", row.call)
    call = "".join(
        written[piece] if place % 2 else "{{ " + literal(piece) + " }}"
        for place, piece in enumerate(pieces)
    )
    opening, closing = ("{{ " + literal(text) + " }}" for text in row.section)
    return (
        "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}"
        + opening
        + "{% for c in m.tool_calls %}"
        + call
        + "{% endfor %}"
        + closing
        + "{% endif %}{% endfor %}"
        # Rows that write calls alike are told apart by other texts.
        + f"{{# {' '.join(row.detect[0])} #}}"
    )


def arguments_of(args: Payload) -> str:
    """Flat arguments in a notation, in Jinja."""
    loop = "{% for k, v in c.function.arguments ORDER %}BODY{{ SEP if not loop.last }}{% endfor %}"
    value = "{{ (Q ~ v ~ Q) if v is string else (v | tojson) }}"
    match args:
        case Tags(arg):
            values = {
                "key": "{{ k }}",
                "value": "{{ v if v is string else (v | tojson) }}",
                "isstr": "{{ (v is string) | tojson }}",
                "type": "{{ 'string' if v is string else 'number' }}",
            }
            parts = [
                values[part] if place % 2 else "{{ " + literal(part) + " }}"
                for place, part in enumerate(re.split("«([a-z0-9]+)»", arg))
            ]
            body, order, separator = "".join(parts), "| items", "''"
        case Quoted(quote):
            body = "{{ k }}:" + value.replace("Q", literal(quote))
            return "{{ '{' }}" + filled(loop, body, "| dictsort", "','") + "{{ '}' }}"
        case Keywords(quote):
            body = "{{ k }}=" + value.replace("Q", literal(quote))
            order, separator = "| items", "', '"
        case _:
            return "{{ c.function.arguments | tojson }}"
    return filled(loop, body, order, separator)


def filled(loop: str, body: str, order: str, separator: str) -> str:
    return loop.replace("BODY", body).replace("ORDER", order).replace("SEP", separator)


def literal(text: str) -> str:
    """A text in Jinja, whose escapes are JSON's."""
    return json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row is not GENERIC], ids=lambda row: row.name
)
def test_a_template_that_writes_calls_as_a_row_says_is_of_that_row(row: ToolFormat) -> None:
    known = recognise(renderer(template_of(row)))
    assert known.row is row, template_of(row)
    assert known.shown


@pytest.mark.parametrize(
    ("habit", "name", "arguments", "content"),
    [
        ("text arguments", "hermes", "text", "null"),
        ("picky", "mistral_v3", "object", "text"),
        ("one call", "llama3_json", "object", "text"),
    ],
)
def test_the_shape_in_which_a_call_shows_is_found_too(
    habit: str, name: str, arguments: str, content: str
) -> None:
    known = recognise(renderer(DIFFICULT[habit]))
    assert known.row
    assert known.row.name == name
    assert (known.traits.arguments, known.traits.empty_content) == (arguments, content)


def test_an_unknown_way_to_write_calls_is_no_row() -> None:
    source = (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "CALL {{ c.function.name }} WITH {{ c.function.arguments }}{% endfor %}{% endfor %}"
    )
    bare = source.replace("CALL {{ c.function.name }} WITH {{ c.function.arguments }}", BARE)
    # Also where the source has the marker of a row, or an object as the generic row has it.
    for text in (source, source + "{# <tool_call> #}", bare):
        known = recognise(renderer(text))
        assert known.row is None
        assert known.shown


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ("<tool_call>", "hermes"),
        ("<|tool_call|> available_tools", "granite3"),
        ("<tool_call> <function=", None),
        ("nothing", None),
    ],
)
def test_texts_in_the_source_decide_where_calls_are_dropped(comment: str, name: str | None) -> None:
    known = recognise(renderer(DIFFICULT["silent"] + "{# " + comment + " #}"))
    assert (known.row.name if known.row else None) == name
    assert not known.shown


def test_a_template_that_takes_too_long_is_given_up_at_once() -> None:
    source = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    with pytest.raises(TemplateTooCostly):
        recognise(renderer(source, Limits(max_steps=1000)))
