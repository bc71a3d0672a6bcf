"""The grammar of arguments in tags, one after the other: `<parameter=city>Porto</parameter>`.

Texts stand there as they are, everything else is JSON.
"""

from __future__ import annotations

from typing import Any

from prompts.payloads import Tags, dumps, fill, json_type
from server.payloads.members import Unlisted, object_rule
from server.payloads.rules import JsonObject, Rules, json_value, quoted
from server.payloads.shapes import Shapes
from server.payloads.texts import ended_text, texts

WORDS = {"boolean": ('"True"', '"False"'), "null": ('"None"',)}
"""How some families write these too."""
_KINDS = (("number", "integer"), ("boolean",), ("null",), ("object",), ("array",))
_LIKE: dict[str, Any] = {"number": 1, "boolean": True, "null": None, "object": {}, "array": []}


def tags_rule(rules: Rules, tags: Tags, schema: JsonObject, *, literal: bool) -> str | None:
    """The rule for the arguments of a schema, None if nothing satisfies it."""
    shapes = Shapes(schema.get("$defs", {}))
    writer = _Writer(rules, tags, shapes, literal=literal)
    return object_rule(rules, shapes, schema, writer.argument)


class _Writer:
    def __init__(self, rules: Rules, tags: Tags, shapes: Shapes, *, literal: bool) -> None:
        self._rules = rules
        self._shapes = shapes
        self._literal = literal
        self._before, _, self._end = tags.arg.partition("«value»")

    def argument(self, key: str | Unlisted, schema: Any) -> str | None:
        values = self._shapes.listed_values(schema)
        if values is None:
            ways = [*self._texts(key, schema), *self._others(key, schema)]
        else:
            ways = [
                f"{self._opening(key, value)} {_fixed(value)} {self._closing}" for value in values
            ]
        return " | ".join(ways) or None

    @property
    def _closing(self) -> str:
        return self._rules.text(self._end, literal=self._literal)

    def _opening(self, key: str | Unlisted, like: Any) -> str:
        """What stands before a value that is `like` this one."""
        values = {"key": "\0", "isstr": dumps(isinstance(like, str)), "type": json_type(like)}
        before, _, after = fill(self._before, values).partition("\0")
        named = key.rule if isinstance(key, Unlisted) else quoted(key)
        ends = (self._rules.text(text, literal=self._literal) for text in (before, after))
        return f" {named} ".join(ends)

    def _texts(self, key: str | Unlisted, schema: Any) -> list[str]:
        found = texts(self._shapes, schema)
        self._rules.inexact |= not found.exact
        opening = self._opening(key, "")
        return [
            f"{opening} {ended_text(self._rules, patterns, self._end, literal=self._literal)}"
            for patterns in found.alternatives
        ]

    def _others(self, key: str | Unlisted, schema: Any) -> list[str]:
        """Values that are no texts, by type where the opening says it."""
        kinds = self._shapes.kinds(schema)
        groups = [[kind for kind in group if kind in kinds] for group in _KINDS]
        if "«type»" not in self._before:
            groups = [[kind for group in groups for kind in group]]
        ways = []
        for group in filter(None, groups):
            spelled = [json_value(self._shapes.only(group, schema))]
            spelled += [word for kind in group for word in WORDS.get(kind, ())]
            value_rule = self._rules.new(" | ".join(map(self._rules.new, spelled)))
            like = _LIKE["number" if "integer" in group else group[0]]
            ways.append(f"{self._opening(key, like)} {value_rule} {self._closing}")
        return ways


def _fixed(value: Any) -> str:
    text = value if isinstance(value, str) else dumps(value)
    return quoted(text) if text else ""
