"""Finds out by rendering what a chat template can take, so that nobody has to list it by hand."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import get_args

from prompts.budget import TemplateFailed, TemplateTooCostly
from prompts.canned import CANNED, WORD_OF_FIRST_USER, WORD_OF_SYSTEM, words
from prompts.render import Renderer
from prompts.traits import Content, NoTools, Results, TemplateTraits, plain

log = logging.getLogger(__name__)


def probe(renderer: Renderer, start: TemplateTraits) -> TemplateTraits | None:
    """The traits of the renderer's template; None if it cannot even show plain turns.

    `start` says what is known already: the shape of calls, and whether the template shows them.
    Raises TemplateTooCostly.
    """
    found = _found(renderer, start)
    for traits in (found, plain(found)):
        lost = [name for name in CANNED if not shows(renderer, traits, name)]
        if not lost:
            return traits
        log.info("template %s does not show %s", renderer.template_name, ", ".join(lost))
    return None


def shows(renderer: Renderer, traits: TemplateTraits, name: str, *, tools: bool = True) -> bool:
    """Whether nothing of the canned conversation `name` is lost in this shape.

    With `tools` this goes for the listing of the tools too.
    """
    conversation = CANNED[name]
    try:
        text = renderer.in_shape(conversation, traits)
    except TemplateTooCostly:
        raise
    except TemplateFailed:
        return False
    return all(word in text for word in words(conversation, tools=tools))


def _found(renderer: Renderer, start: TemplateTraits) -> TemplateTraits:
    """One trait after the other, each from the best value to the plainest."""

    def first(
        options: Iterable[TemplateTraits], *names: str, tools: bool = False
    ) -> TemplateTraits:
        for traits in options:
            if all(shows(renderer, traits, name, tools=tools) for name in names):
                break
        return traits

    basics = [
        replace(start, content=content, no_tools=no_tools)
        for content, no_tools in product(get_args(Content), get_args(NoTools))
    ]
    found = first(basics, "question")
    found = first([found, replace(found, alternate=True)], "in a row")
    found = first([found, replace(found, drop_empty=True)], "says nothing")
    systems = _systems(renderer, found)
    found = first(systems, "system", "later system")
    as_text = [replace(found, calls="text", results=value) for value in get_args(Results)]
    found = replace(found, results=first(as_text, "call", "loop").results)
    if found.calls == "native":
        found = first([found, replace(found, calls="text")], "call", "loop")
    found = first(_parallel(renderer, found), "two calls")
    found = first(_beside(found), "text and call", "text and later call")
    found = first(_after(found), "user after result")
    found = first([found, replace(found, tools="ours")], "tools", "call", "loop", tools=True)
    found = first([found, replace(found, tool_schemas="typed")], "odd tools", tools=True)
    found = first([found, replace(found, user_first=True)], "assistant first", "call first")
    return first(
        [replace(found, system=traits.system) for traits in systems],
        "system",
        "later system",
        "system last",
    )


def _systems(renderer: Renderer, found: TemplateTraits) -> list[TemplateTraits]:
    native = replace(found, system="first")
    in_user: TemplateTraits = replace(found, system="first_user")
    try:
        text = renderer.in_shape(CANNED["system"], native)
    except TemplateFailed:
        text = ""
    if text.find(WORD_OF_FIRST_USER) < text.find(WORD_OF_SYSTEM):
        in_user = replace(found, system="last_user")
    return [replace(found, system="anywhere"), native, in_user]


def _parallel(renderer: Renderer, found: TemplateTraits) -> list[TemplateTraits]:
    single = replace(found, parallel="single")
    return [single] if renderer.row.max_calls == 1 else [found, single]


def _after(found: TemplateTraits) -> list[TemplateTraits]:
    as_text = replace(found, user_after_result="text")
    return [found, as_text, replace(as_text, results="user")]


def _beside(found: TemplateTraits) -> list[TemplateTraits]:
    in_text = replace(found, text_beside_calls="text")
    texts = [in_text, replace(in_text, results="user")]
    if found.alternate:  # a message before the calls would be merged with them again
        return [found, *texts]
    return [found, replace(found, text_beside_calls="before"), *texts]
