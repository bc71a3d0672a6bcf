"""A client's Lark grammar, rewritten for the inside of a JSON string.

A model writes the input of a custom tool as the text of a JSON string, where a quote, a backslash
and control characters are escaped. Escaping acts on one character at a time and can be undone, so
it is enough to put every terminal of the grammar into its escaped form: the rules stay as they are.
One spelling of each character is allowed, the shortest. Where terminals become rules the grammar
may let more through, so that the finished input is checked against the client's own.

Syntax: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from server.lark_length import shortest_text
from server.schema.shortest import MAX_SHORTEST
from server.terminals import (
    SPECIAL,
    Escaped,
    NotTranslatable,
    escaped_pattern,
    escaped_text,
    plain_pattern,
)

MAX_LENGTH = 64_000  # characters
MAX_NAMES = 1_000  # of rules and terminals: the back end follows them by recursion

_TOKEN = re.compile(
    r"""(?P<comment>(?:\#|//)[^\n]*)
      | (?P<range>"(?:\\.|[^"\\])*"\s*\.\.\s*"(?:\\.|[^"\\])*")
      | (?P<text>"(?:\\.|[^"\\])*"i?)
      | (?P<pattern>/(?:\\.|[^/\\])+/[imslux]*)
      | (?P<special><[^<>\s]+>)
      | (?P<imports>%import[ \t]+common[ \t]*\.[ \t]*\w+(?:[ \t]*->[ \t]*\w+)?
          | %import[ \t]+common[ \t]*\([^)]*\))
      | (?P<keyword>%(?:json|regex|llguidance|lark)\b|@[\w-]+)
      | (?P<attribute>\b[a-z_]+[ \t]*=)
      | (?P<negation>~(?![ \t]*[0-9]))
      | (?P<both>&)
      | (?P<name>\b_?[A-Z][_A-Z0-9-]*)
    """,
    re.VERBOSE,
)
# What a line begins with that is no part of the expression before it.
_HEAD = re.compile(
    r"""^[ \t]*(?:[!?]*_?[A-Za-z][\w-]*(?:::_)?(?:\[(?:"(?:\\.|[^"\\])*"|[^\]"\n])*\])?[ \t]*:
      | %ignore | (?=%import))""",
    re.MULTILINE | re.VERBOSE,
)
_ATTRIBUTES = ("capture", "lazy", "suffix")

# Terminals of Lark's `common` that may have a character which is escaped.
_COMMON = {
    "ESCAPED_STRING": r'"(?:[^"\\]|\\.)*"',
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"\/\/[^\n]*",
    "C_COMMENT": r"\/\*[^*]*\*+(?:[^\/*][^*]*\*+)*\/",
    "SQL_COMMENT": r"--[^\n]*",
}


class BadGrammar(ValueError):
    """The grammar will not do; the message says why."""


def check_lark(definition: str) -> None:
    """Raise BadGrammar for what has no place in the input of a tool, or is too large.

    What the back end has against it is not known here.
    """
    if len(definition) > MAX_LENGTH:
        raise BadGrammar(f"it is longer than {MAX_LENGTH} characters")
    if len(_HEAD.findall(definition)) > MAX_NAMES:
        raise BadGrammar(f"it has more than {MAX_NAMES} rules and terminals")
    for token in _TOKEN.finditer(definition):
        if token["special"]:
            raise BadGrammar(f"{token[0]} is a special token, which no input can have")
        if token["keyword"]:
            raise BadGrammar(f"{token[0]} is not supported")
        name = (token["attribute"] or "").rstrip("= \t")
        if name and name not in _ATTRIBUTES:
            raise BadGrammar(f"the attribute {name!r} is not supported")
    if MAX_SHORTEST < shortest_text(_expressions(definition)) < math.inf:
        raise BadGrammar(f"its shortest text is longer than {MAX_SHORTEST} characters")


def _expressions(definition: str) -> dict[str, str]:
    """The expressions of rules and terminals by their names, without comments."""
    return {
        re.sub(r"[\[:.].*", "", each.head, flags=re.DOTALL).strip(" \t!?"): "".join(
            _shown(one) for one in each.tokens
        )
        for each in _statements(definition)
        if each.head and not each.head.lstrip().startswith("%")
    }


@dataclass(frozen=True)
class Inside:
    """The grammar of the escaped inputs. Unless `exact`, it may let more through than it should."""

    lark: str
    exact: bool


def _shown(token: re.Match[str] | str) -> str:
    """A token as it was written, unless it is a comment."""
    if isinstance(token, str):
        return token
    return "" if token.lastgroup == "comment" else token[0]


def inside_string(definition: str) -> Inside | None:
    """None for a grammar that is not put into such words here.

    The definition has passed `check_lark` and the back end.
    """
    try:
        rewriter = _Rewriter(definition)
        return Inside("\n".join(rewriter.lines()), rewriter.exact)
    except NotTranslatable:
        return None


@dataclass(frozen=True)
class _Statement:
    """A rule, a terminal or a directive: what comes before its expression, and its tokens."""

    head: str
    tokens: tuple[re.Match[str] | str, ...]

    @property
    def terminal(self) -> str:
        """The name of the terminal that it defines."""
        name = self.head.strip(" \t:")
        return name if name.lstrip("_")[:1].isupper() else ""

    @property
    def of_terminals(self) -> bool:
        """Whether its expression is one lexeme as a whole."""
        return self.head.lstrip().startswith("%") or "[" in self.head or bool(self.terminal)


class _Rewriter:
    """Rewrites one grammar. A terminal with special characters gets a twin, which is a rule."""

    def __init__(self, definition: str) -> None:
        self._statements = list(_statements(definition))
        self._terminals = {each.terminal: each for each in self._statements if each.terminal}
        self._twins: set[str] = set()
        while found := {name for name in self._terminals if self._needs_twin(name)} - self._twins:
            self._twins |= found
        self.exact = not self._twins

    def lines(self) -> Iterator[str]:
        for each in self._statements:
            if each.head.lstrip().startswith("%ignore"):
                yield from self._ignored(each)
                continue
            head = "".join(self._lexeme(one) for one in _tokens(each.head))
            write = self._lexeme if each.of_terminals else self._rules
            yield head + "".join(write(one) for one in each.tokens)
            if each.terminal in self._twins:
                alone = sum(not isinstance(one, str) for one in each.tokens) == 1
                rules = "".join(self._rules(one, alone=alone) for one in each.tokens)
                yield f"{_twin(each.terminal)}: {rules.strip()}"

    def _needs_twin(self, name: str) -> bool:
        tokens = self._terminals[name].tokens
        kinds = [token.lastgroup for token in tokens if not isinstance(token, str)]
        if "both" in kinds or "negation" in kinds:
            return False  # rules do not know these
        return any(self._is_special(token) for token in tokens)

    def _is_special(self, token: re.Match[str] | str) -> bool:
        if isinstance(token, str):
            return False
        if token.lastgroup == "name":
            return token[0] in self._twins
        return token.lastgroup in _LITERAL and _literal(token).special

    def _ignored(self, statement: _Statement) -> Iterator[str]:
        """What is skipped, with each escape as a lexeme of its own, as far as that is simple."""
        tokens = [each for each in statement.tokens if not isinstance(each, str) or each.strip()]
        only = tokens[0] if len(tokens) == 1 else None
        if isinstance(only, re.Match) and only.lastgroup == "name" and only[0] in self._terminals:
            yield from self._ignored(_Statement("", self._terminals[only[0]].tokens))
        elif isinstance(only, re.Match) and only.lastgroup in _LITERAL and _literal(only).skips:
            yield from (f"%ignore {lexeme}" for lexeme in _literal(only).skips)
        else:
            yield "%ignore " + "".join(map(self._lexeme, statement.tokens)).strip()

    def _lexeme(self, token: re.Match[str] | str) -> str:
        """A token where the expression is one lexeme."""
        if isinstance(token, str):
            return token
        match token.lastgroup:
            case "comment":
                return ""
            case "negation":
                raise NotTranslatable
            case "range" | "text" | "pattern":
                return _literal(token).lexeme
        return token[0]

    def _rules(self, token: re.Match[str] | str, *, alone: bool = True) -> str:
        """A token where the expression is one of rules; `alone`: it was a lexeme of its own."""
        if isinstance(token, str):
            return token
        if token.lastgroup == "name" and token[0] in self._twins:
            return _twin(token[0])
        if token.lastgroup not in _LITERAL:
            return self._lexeme(token)
        literal = _literal(token, alone=alone)
        self.exact &= literal.rules == literal.lexeme
        return literal.rules


_LITERAL = ("range", "text", "pattern")


def _twin(name: str) -> str:
    return "x-" + name.lower()


def _statements(definition: str) -> Iterator[_Statement]:
    """The statements of a grammar, imports as the definitions that they stand for."""
    definition = _TOKEN.sub(
        lambda token: "\n".join(_imported(token[0])) if token["imports"] else token[0], definition
    )
    heads = list(_HEAD.finditer(definition))
    if not heads:
        return
    ends = [each.start() for each in heads[1:]] + [len(definition)]
    for head, end in zip(heads, ends, strict=True):
        yield _Statement(head[0], tuple(_tokens(definition[head.end() : end])))


def _tokens(text: str) -> Iterator[re.Match[str] | str]:
    """The tokens that matter, and what stands between them."""
    at = 0
    for token in _TOKEN.finditer(text):
        yield text[at : token.start()]
        yield token
        at = token.end()
    yield text[at:]


def _literal(token: re.Match[str], *, alone: bool = True) -> Escaped:
    text = token[0]
    if token.lastgroup == "pattern":
        body, _, flags = text[1:].rpartition("/")
        return escaped_pattern(body, flags, alone=alone)
    if token.lastgroup == "range":
        first, last = (_value(each) for each in re.split(r"(?<=\")\s*\.\.\s*(?=\")", text))
        return escaped_pattern(f"[{plain_pattern(first)}-{plain_pattern(last)}]", "")
    if text.endswith("i"):
        return escaped_pattern(plain_pattern(_value(text[:-1])), "i")
    value = _value(text)
    quoted = json.dumps(escaped_text(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    return Escaped(quoted, quoted, special=any(char in SPECIAL for char in value))


def _imported(statement: str) -> list[str]:
    """A statement of imports with the terminals that need it defined here."""
    _, _, names = statement.partition("common")
    several = names.strip().startswith("(")
    lines = []
    for name in names.strip(" \t.()").split(",") if several else [names.strip(" \t.")]:
        theirs, _, ours = (part.strip() for part in name.partition("->"))
        if theirs in _COMMON:
            lines.append(f"{ours or theirs}: /{_COMMON[theirs]}/")
        elif theirs:
            lines.append(f"%import common.{theirs}" + (f" -> {ours}" if ours else ""))
    return lines


def _value(literal: str) -> str:
    """The text of a literal: JSON's escapes, and `\\x`."""
    text = re.sub(r"\\(\\|x([0-9a-fA-F]{2}))", lambda m: f"\\u00{m[2]}" if m[2] else m[0], literal)
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        raise NotTranslatable from None
    return str(value)
