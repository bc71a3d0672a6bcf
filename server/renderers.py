"""Renderers of one model by template name: the server's own choice, and what requests ask for."""

from __future__ import annotations

import threading

from prompts.facts import ModelFacts
from prompts.render import Renderer
from prompts.select import NAMES, choose
from server.errors import InvalidRequest, SetupError


class Renderers:
    """Makes each renderer once. `setting` is the server's: auto, native, a name, or a path."""

    def __init__(self, facts: ModelFacts, setting: str) -> None:
        self._facts = facts
        self._default = choose(facts, setting)
        self._by_name: dict[str, Renderer] = {}
        self._lock = threading.Lock()

    @property
    def default(self) -> Renderer:
        return self._default

    def get(self, name: str | None) -> Renderer:
        """The renderer a request asks for by name. Raises InvalidRequest for an unknown one."""
        if name is None:
            return self._default
        # A request names a template, never a path.
        if name not in ("auto", "native", *NAMES):
            raise InvalidRequest(
                f"there is no template {name!r}: use auto, native, {', '.join(NAMES)}",
                param="prompt_template",
            )
        with self._lock:
            if name not in self._by_name:
                try:
                    self._by_name[name] = choose(self._facts, name)
                except SetupError as exc:
                    raise InvalidRequest(exc.message, param="prompt_template") from None
            return self._by_name[name]
