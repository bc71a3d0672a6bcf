"""Which format a chat template writes calls in: render one and see whose text it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

from prompts.budget import TemplateFailed, TemplateTooCostly
from prompts.canned import CALL, CANNED, CITY
from prompts.formats import GENERIC, ROWS, ToolFormat, render_calls
from prompts.render import Renderer
from prompts.traits import Arguments, Content, EmptyContent, TemplateTraits

CALL_SHAPES = tuple(
    TemplateTraits(content=content, arguments=arguments, empty_content=empty)
    for content, arguments, empty in product(
        get_args(Content), get_args(Arguments), get_args(EmptyContent)
    )
)


@dataclass(frozen=True)
class Recognised:
    """`row` is None for a format that no row describes. `shown`: the template renders calls."""

    row: ToolFormat | None
    shown: bool
    traits: TemplateTraits


def recognise(renderer: Renderer) -> Recognised:
    """The format of the renderer's template, and the shape of a call in which it shows.

    Where a template drops calls from the history, texts in its source decide. Raises
    TemplateTooCostly.
    """
    shown: Recognised | None = None
    for traits, output in _attempts(renderer):
        row = _row_within(output, renderer.template.source)
        if row:
            return Recognised(row, True, traits)
        if CITY in output and shown is None:
            shown = Recognised(None, True, traits)
    return shown or Recognised(_row_by_source(renderer.template.source), False, TemplateTraits())


def _attempts(renderer: Renderer) -> Iterator[tuple[TemplateTraits, str]]:
    for ids in ("any", "kimi"):
        shaping = replace(renderer, row=replace(GENERIC, ids=ids))
        for traits in CALL_SHAPES:
            try:
                yield traits, shaping.in_shape(CANNED["call"], traits)
            except TemplateTooCostly:
                raise
            except TemplateFailed:
                continue


def _row_within(output: str, source: str) -> ToolFormat | None:
    """The row with the longest text: what one writes may be the beginning of another's.

    Of those that write the same, the one whose texts are in the source.
    """
    found: dict[ToolFormat, tuple[int, bool]] = {}
    for row in ROWS:
        call = replace(CALL, id=f"functions.{CALL.name}:0") if row.ids == "kimi" else CALL
        written = render_calls(row, [call])
        if row is not GENERIC and written in output:
            found[row] = (len(written), _is_of(row, source))
    return max(found, key=found.__getitem__, default=None)


def _row_by_source(source: str) -> ToolFormat | None:
    return next((row for row in ROWS if _is_of(row, source)), None)


def _is_of(row: ToolFormat, source: str) -> bool:
    wanted, unwanted = row.detect
    return (
        bool(wanted)
        and all(text in source for text in wanted)
        and not any(text in source for text in unwanted)
    )
