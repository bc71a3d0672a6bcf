"""Which template and which format a model gets."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from prompts.budget import TemplateFailed
from prompts.canned import CANNED
from prompts.detect import Recognised, recognise
from prompts.facts import ModelFacts
from prompts.formats import HERMES, LLAMA3_JSON, ToolFormat
from prompts.guard import Guard
from prompts.own_formats import BARE_JSON, CALL_LIST, GENERIC, PYTHONIC
from prompts.probe import probe
from prompts.render import Layout, Listing, Renderer
from prompts.sandbox import TEMPLATES, ChatTemplate
from prompts.traits import TemplateTraits
from server.errors import SetupError

log = logging.getLogger(__name__)

_MAX_TEMPLATE_BYTES = 1_000_000


@dataclass(frozen=True)
class OwnTemplate:
    """One of ours, and the format that it shows."""

    name: str
    row: ToolFormat
    summary: str

    @property
    def source(self) -> str:
        return _ours(self.name)


OWN_TEMPLATES = {
    own.name: own
    for own in (
        OwnTemplate("qwen2_5", HERMES, "Qwen2.5 and Qwen2.5-Coder: <tool_call> tags"),
        OwnTemplate("llama3", LLAMA3_JSON, "Llama 3.1, 3.2 and 3.3: a bare JSON object"),
        OwnTemplate("chatml", HERMES, "ChatML models whose own template knows no tools"),
        OwnTemplate("generic", GENERIC, "models without any template: a table of the tools"),
    )
}


@dataclass(frozen=True)
class OwnListing:
    """A text of ours that lists the tools, shown in the turns of the model's own template."""

    name: str
    file: str
    layout: Layout
    summary: str
    row: ToolFormat = BARE_JSON

    @property
    def source(self) -> str:
        return _ours(self.file)


OWN_LISTINGS = {
    own.name: own
    for own in (
        OwnListing("table_en", "article_en", "table", "any model: a table, told in English"),
        OwnListing("table_zh", "article_zh", "table", "any model: a table, told in Chinese"),
        OwnListing("json_en", "article_en", "json", "any model: JSON lines, told in English"),
        OwnListing("json_zh", "article_zh", "json", "any model: JSON lines, told in Chinese"),
        OwnListing("signatures", "signatures", "json", "any model: a list of calls", CALL_LIST),
        OwnListing("pythonic", "signatures", "json", "the same, in Python's notation", PYTHONIC),
    )
}
NAMES = (*OWN_TEMPLATES, *OWN_LISTINGS)
# Which of ours stands in for a native template of that format, by a marker of its turns.
_STAND_INS = (("<|im_start|>", HERMES, "qwen2_5"), ("<|start_header_id|>", LLAMA3_JSON, "llama3"))
_TURN_MARKERS = (("<|im_start|>", "chatml"), ("<|start_header_id|>", "llama3"))


def choose(facts: ModelFacts, setting: str) -> Renderer:
    """The renderer for a model.

    `setting` is "auto", "native" (the GGUF's own template), the name of one of ours, or the path of
    a Jinja file. "auto" is the model's own where that lists tools correctly, one of ours otherwise.
    Raises SetupError.
    """
    if setting == "auto":
        return _auto(facts)
    if setting == "native":
        if facts.chat_template is None:
            raise SetupError(
                f"{facts.name} has no chat template of its own",
                hint="leave --prompt-template at auto, or name one of ours: " + ", ".join(NAMES),
            )
        return _required(facts, "native", facts.chat_template)
    if setting in OWN_TEMPLATES:
        return _own(facts, setting)
    if setting in OWN_LISTINGS:
        return _listed(facts, OWN_LISTINGS[setting])
    if setting.endswith(".jinja") or "/" in setting:
        return _required(facts, setting, _read(Path(setting)))
    raise SetupError(
        f"there is no prompt template {setting!r}",
        hint=f"use auto, native, a path of a .jinja file, or one of {', '.join(NAMES)}",
    )


def _auto(facts: ModelFacts) -> Renderer:
    if facts.chat_template is None:
        log.info("%s has no chat template: using the generic one", facts.name)
        return _own(facts, "generic")
    try:
        renderer = _foreign(facts, "native", facts.chat_template)
    except TemplateFailed as exc:
        name = next(
            (own for marker, own in _TURN_MARKERS if marker in facts.chat_template), "generic"
        )
        log.warning("the chat template of %s cannot be used (%s): using %s", facts.name, exc, name)
        return _own(facts, name)
    stand_in = _stand_in(renderer)
    if stand_in:
        log.info("%s: using the template %s instead of its own", facts.name, stand_in)
        return _own(facts, stand_in)
    return renderer


def _stand_in(native: Renderer) -> str | None:
    """The name of our template that does better than a model's own, if there is one."""
    question = native.in_shape(CANNED["tools"], native.traits)
    if native.traits.tools == "ours":
        source = native.template.source
        plain = "tool" not in source and "think" not in source
        return "chatml" if plain and "<|im_start|>user\n" in question else None
    if '{{"name"' not in question:
        return None
    # A known slip: the braces of a Python format string were left doubled, and models imitate it.
    for marker, row, name in _STAND_INS:
        if native.row is row and marker in question:
            return name
    log.warning("the chat template of %s shows calls with doubled braces", native.facts.name)
    return None


def _required(facts: ModelFacts, name: str, source: str) -> Renderer:
    try:
        return _foreign(facts, name, source)
    except TemplateFailed as exc:
        raise SetupError(
            f"the template {name} of {facts.name} cannot be used: {exc}",
            hint="leave --prompt-template at auto, or name one of ours: " + ", ".join(NAMES),
        ) from None


def _foreign(facts: ModelFacts, name: str, source: str) -> Renderer:
    """A template that is not ours: format and shape are found by rendering."""
    blank = _unprobed(facts, name, source, GENERIC)
    known = recognise(blank)
    if known.row is None:
        log.log(
            logging.WARNING if known.shown else logging.INFO,
            "%s: the template %s %s; we list the tools, and calls are <tool_call> text",
            facts.name,
            name,
            "writes calls in an unknown format" if known.shown else "shows no calls",
        )
    return _probed(replace(blank, row=known.row or HERMES), _start(known))


def _start(known: Recognised) -> TemplateTraits:
    if known.row is None:
        return replace(known.traits, tools="ours", calls="text")
    return known.traits if known.shown else replace(known.traits, calls="text")


def _own(facts: ModelFacts, name: str) -> Renderer:
    own = OWN_TEMPLATES[name]
    return _probed(_unprobed(facts, name, own.source, own.row), TemplateTraits())


def _listed(facts: ModelFacts, own: OwnListing) -> Renderer:
    """The model's own turns, or the generic ones, with the calls of the listing in each."""
    source = facts.chat_template or OWN_TEMPLATES["generic"].source
    row = own.row if facts.chat_template else replace(own.row, end=GENERIC.end)
    try:
        blank = _unprobed(facts, own.name, source, row)
        known = recognise(blank).row
        if known and facts.chat_template:
            row = replace(row, reasoning=known.reasoning, end=known.end, efforts=known.efforts)
        listing = Listing(ChatTemplate(own.source), own.layout)
        blank = replace(blank, row=row, listing=listing)
        if known and any(known.text):
            raise TemplateFailed("each of its answers begins by saying whether it is a call")
        return _probed(blank, TemplateTraits(tools="ours", calls="text"))
    except TemplateFailed as exc:
        raise SetupError(
            f"{own.name} needs the chat template of {facts.name}, which cannot be used: {exc}",
            hint="generic has a table of the tools, too, and turns of its own",
        ) from None


def _probed(renderer: Renderer, start: TemplateTraits) -> Renderer:
    traits = probe(renderer, start)
    if traits is None:
        raise TemplateFailed("it loses or refuses even plain turns of user and assistant")
    log.debug("template %s: %s, %s", renderer.template_name, renderer.row.name, traits)
    return replace(renderer, traits=traits)


def _unprobed(facts: ModelFacts, name: str, source: str, row: ToolFormat) -> Renderer:
    return Renderer(
        template_name=name,
        template=ChatTemplate(source),
        row=row,
        facts=facts,
        traits=TemplateTraits(),
        guard=Guard(facts.special_tokens),
        listing=Listing(ChatTemplate(_ours("listing"))),
    )


def _ours(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text("utf-8")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_TEMPLATE_BYTES + 1)
    except OSError as exc:
        raise SetupError(f"cannot read the template {path}: {exc.strerror}") from None
    if len(data) > _MAX_TEMPLATE_BYTES:
        raise SetupError(f"the template {path} is larger than {_MAX_TEMPLATE_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise SetupError(f"the template {path} is not UTF-8 text") from None
