"""The grammars of notations that write whole values in their own way: Gemma's and Python's."""

from __future__ import annotations

import json
from typing import Any

from prompts.payloads import Quoted, alphabetical, python, quoted
from server.payloads import rules as lark
from server.payloads.members import Order, Unlisted, object_rule
from server.payloads.rules import JsonObject, Rules, json_value, pattern
from server.payloads.shapes import Items, Shapes, Tangled, items
from server.payloads.tags import WORDS
from server.payloads.texts import ended_text, texts

_SCALARS = ("number", "integer", "boolean", "null")
_PLAIN = r"[^'\\]*"
_ESCAPED = r"(?:[^'\\]|\\['\"\\nrt])*"


def quoted_rule(rules: Rules, payload: Quoted, schema: JsonObject, *, literal: bool) -> str | None:
    """The rule for the arguments of a schema in Gemma's notation, None if nothing satisfies it."""
    writer = _Gemma(rules, Shapes(schema.get("$defs", {})), payload.quote, literal=literal)
    return writer.object(schema)


def keywords_rule(rules: Rules, schema: JsonObject) -> str | None:
    """The rule for keyword arguments of a schema, None if nothing satisfies it."""
    writer = _Python(rules, Shapes(schema.get("$defs", {})))
    return writer.keywords(schema)


class _Writer:
    """Writes rules for values, one for each schema."""

    separator: str
    colon: str
    order: Order | None

    def __init__(self, rules: Rules, shapes: Shapes) -> None:
        self.rules = rules
        self.shapes = shapes
        self._made: dict[str, str | None] = {}

    def fixed(self, value: Any) -> str:
        raise NotImplementedError

    def key(self, name: str | Unlisted) -> str:
        raise NotImplementedError

    def texts(self, schema: Any) -> list[str]:
        raise NotImplementedError

    def scalars(self, kinds: list[str], schema: Any) -> list[str]:
        return [json_value(self.shapes.only(kinds, schema))]

    def value(self, schema: Any) -> str | None:
        """The rule for a value; a schema that contains itself comes to the same one."""
        key = json.dumps(schema)
        if key not in self._made:
            name = self._made[key] = self.rules.reserve()
            ways = self._ways(schema)
            if ways:
                self.rules.add(name, " | ".join(ways))
            else:
                self._made[key] = None
        return self._made[key]

    def _ways(self, schema: Any) -> list[str]:
        values = self.shapes.listed_values(schema)
        if values is not None:
            return [self.fixed(value) for value in values]
        kinds = self.shapes.kinds(schema)
        ways = self.texts(schema) if "string" in kinds else []
        if scalars := [kind for kind in _SCALARS if kind in kinds]:
            ways += [self.rules.new(each) for each in self.scalars(scalars, schema)]
        if "array" in kinds:
            ways += self._arrays(schema)
        if "object" in kinds and (made := self.object(schema)):
            ways.append(made)
        return ways

    def member(self, name: str | Unlisted, schema: Any) -> str | None:
        value = self.value(schema)
        return None if value is None else f"{self.key(name)} {lark.quoted(self.colon)} {value}"

    def object(self, schema: Any) -> str | None:
        inner = object_rule(
            self.rules,
            self.shapes,
            schema,
            self.member,
            separator=lark.quoted(self.separator),
            order=self.order,
        )
        return None if inner is None else self.rules.new(f'"{{" {inner} "}}"')

    def _arrays(self, schema: Any) -> list[str]:
        try:
            ways = [made for way in self.shapes.ways(schema) if (made := items(way))]
        except Tangled:
            self.rules.inexact = True
            ways = [Items((), True, 0, None)]
        bodies = [inner for made in ways if (inner := self._list(made)) is not None]
        return [self.rules.new(f'"[" {inner} "]"') for inner in dict.fromkeys(bodies)]

    def _list(self, made: Items) -> str | None:
        """What stands between the brackets; None if there is no such array."""
        separator = lark.quoted(self.separator)
        first = made.first if made.most is None else made.first[: made.most]
        rules = [self.value(schema) for schema in first]
        rest = self.value(made.rest) if made.rest is not False else None
        if None in rules:
            rules, rest = rules[: rules.index(None)], None
        most = len(rules) if rest is None else made.most
        if most is not None and most < made.least:
            return None
        if rest is not None and (most is None or most > len(rules)):
            left = max(0, made.least - len(rules))
            more = "" if most is None else str(most - len(rules))
            if rules:
                following = f"({separator} {rest}){{{left},{more}}}"
            else:
                more = more and str(int(more) - 1)
                following = f"{rest} ({separator} {rest}){{{max(0, left - 1)},{more}}}"
                following = following if left else f"({following})?"
        else:
            following = ""
        for position in range(len(rules) - 1, -1, -1):
            one = f"{rules[position]} {following}"
            one = f"{separator} {one}" if position else one
            following = one if position < made.least else f"({one})?"
        return following


class _Gemma(_Writer):
    separator, colon = ",", ":"
    order = staticmethod(alphabetical)

    def __init__(self, rules: Rules, shapes: Shapes, quote: str, *, literal: bool) -> None:
        super().__init__(rules, shapes)
        self._quote = quote
        self._literal = literal

    def fixed(self, value: Any) -> str:
        return self.rules.text(quoted(self._quote, value), literal=self._literal)

    def key(self, name: str | Unlisted) -> str:
        return name.rule if isinstance(name, Unlisted) else lark.quoted(name)

    def texts(self, schema: Any) -> list[str]:
        found = texts(self.shapes, schema)
        self.rules.inexact |= not found.exact
        opening = self.rules.text(self._quote, literal=self._literal)
        return [
            f"{opening} {ended_text(self.rules, patterns, self._quote, literal=self._literal)}"
            for patterns in found.alternatives
        ]


class _Python(_Writer):
    separator, colon = ", ", ": "
    order = None

    def fixed(self, value: Any) -> str:
        spelled = dict.fromkeys([python("'", value), python('"', value)])
        return "(" + " | ".join(map(lark.quoted, spelled)) + ")"

    def key(self, name: str | Unlisted) -> str:
        if isinstance(name, Unlisted):
            return "(" + " | ".join(f"{q} {name.rule} {q}" for q in ('"\'"', '"\\""')) + ")"
        return self.fixed(name)

    def texts(self, schema: Any) -> list[str]:
        """Between single quotes, with escapes where any text will do; or as JSON."""
        found = texts(self.shapes, schema)
        ways = [self.rules.new(json_value(self.shapes.only(["string"], schema)))]
        for patterns in found.alternatives:
            inner = [f"'(?:{each})'" for each in (*patterns, _PLAIN if patterns else _ESCAPED)]
            self.rules.inexact |= not found.exact
            ways.append(self.rules.new(" & ".join(map(pattern, inner)), terminal=True))
        return ways

    def scalars(self, kinds: list[str], schema: Any) -> list[str]:
        words = (word for kind in kinds for word in WORDS.get(kind, ()))
        return [*super().scalars(kinds, schema), *words]

    def keywords(self, schema: JsonObject) -> str | None:
        def write(name: str | Unlisted, inner: Any) -> str | None:
            value = self.value(inner)
            key = name.rule if isinstance(name, Unlisted) else lark.quoted(name)
            return None if value is None else f'{key} "=" {value}'

        return object_rule(
            self.rules, self.shapes, schema, write, separator=lark.quoted(self.separator)
        )
