from __future__ import annotations

import json
from itertools import pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.conversation import PastCall
from prompts.formats import HERMES, render_calls
from server.constraint import ConstraintCompiler
from server.plan import Callee, Plan
from server.schema import patterns
from server.schema.patterns import BadPattern, complement, read
from tests.driving import verdict
from tests.fakes import byte_vocabulary

# Pattern, texts that match, texts that do not, as ECMA-262 has it.
READ = [
    (r"^\d{2}$", ["12"], ["1", "١٢", "12\n", "123"]),
    (r"^\w+$", ["a_1"], ["ä", "a b", ""]),
    (r"^\S+$", ["ab"], ["a b", "a\u00a0b", "\ufeff"]),
    (r"^[\s\d]$", [" ", "7", "\u2003"], ["x"]),
    (r"^[^\s]$", ["a"], [" ", "\u3000"]),
    (r"^[\S]$", ["a"], [" "]),
    (r"^.$", ["é", "\t"], ["\n", "\r", "\u2028", "ab"]),
    (r"^all is quite clear\!$", ["all is quite clear!"], ["all is quite clear"]),
    (r"^[\w.-]+$", ["a-."], ["ä"]),
    (r"^[\d-x]$", ["1", "-", "x"], ["w", "5x"]),
    (r"^[a-\d]$", ["a", "-", "3"], ["b"]),
    (r"^[[&&~~]$", ["[", "&", "~"], ["a"]),
    ("^🐲{2}$", ["🐲🐲"], ["🐲"]),
    (r"^\uD83D\uDC32$", ["🐲"], ["x"]),
    (r"^\u{1F432}\x41\u0042$", ["🐲AB"], ["x"]),
    (r"^\cC\0$", ["\x03\0"], ["cC0"]),
    (r"[^]", ["\n", "a"], [""]),
    (r"^a[]|b$", ["b", "xb"], ["a"]),
    (r"^\p{L}+$", ["äb"], ["1"]),
    (r"^\P{Lu}$", ["a"], ["A"]),
    (r"^\p{Script=Greek}$", ["α"], ["a"]),
    (r"a{2", ["xa{2"], ["aa"]),
    (r"^a{,2}$", ["a{,2}"], ["aa"]),
    (r"^}]$", ["}]"], ["a"]),
    (r"^(?<y>a|b)\k<y>$", ["aa", "bb"], ["ab", "a"]),
    (r"^(a|b)c\1$", ["aca"], ["acb", "ac"]),
    (r"\bfoo\b", ["a foo.", "fooä"], ["afoo", "foo_"]),
    (r"^foo\Bx$", ["foox"], ["foo x"]),
    (r"^(?=.*\d)[a-z\d]+$", ["ab1"], ["ab"]),
    (r"^(?!no)[a-z]{2,4}$", ["yes"], ["nope"]),
    (r"(?<=\$)\d+", ["$42"], ["42"]),
    (r"^(?:a|b)*?$", ["abab", ""], ["c"]),
    (r"(?i)^abc$", ["ABC"], ["abd"]),
    (r"^a\/b$", ["a/b"], ["ab"]),
    ("", ["", "x"], []),
]

BAD = [
    *("(", ")", "a)", "(?:a", "[", "[a", "\\", "*", "+a", "^*", "a**", "a++", "a{2}{3}", "(|*)"),
    *(r"[b-a]", r"[\d-\w", r"\a", r"\Z", r"\A", r"\u{110000}", r"\ud800", r"\u12", r"\x1"),
    *(r"\c1", r"\p", r"\p{Nonsense}", r"\2", r"(a)\2", r"\k", r"\k<x>", r"(?<=a)+", "(?>a)"),
    *("a{3,1}", "(?#x)", "(?P=x)", "(?'n'a)", r"\00", r"\_x\q"),
]

texts = st.text(alphabet="ab1()[]{}*+?|^$.,\\-dwsbBkpP<>=!:uxc0L\n é🐲", max_size=14)


@pytest.mark.parametrize(("pattern", "hits", "misses"), READ)
def test_patterns_mean_what_ecma_262_says(pattern: str, hits: list[str], misses: list[str]) -> None:
    compiled = regex.compile(read(pattern).check)
    assert [text for text in hits if not compiled.search(text)] == []
    assert [text for text in misses if compiled.search(text)] == []


@pytest.mark.parametrize("pattern", BAD)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        read(pattern)


@pytest.mark.parametrize(
    ("pattern", "exact"),
    [
        (r"^[a-z]+\d$", True),
        (r"^(?=a)[a-c]$", False),
        (r"^(a|b)\1$", False),
        (r"\ba", False),
        ("^[^]$", True),
        ("^a[]|b$", True),
        (r"^\p{L}[\p{L}]$", True),
        (r"^\P{L}$", False),
        (r"^[^\p{L}]$", False),
    ],
)
def test_the_grammar_says_whether_it_says_all(pattern: str, exact: bool) -> None:
    assert read(pattern).exact == exact


@settings(deadline=None)
@given(texts)
def test_what_is_read_can_be_compiled(pattern: str) -> None:
    try:
        found = read(pattern)
    except BadPattern:
        return
    regex.compile(found.check)
    regex.compile(found.grammar)


@settings(deadline=None)
@given(texts, st.text(alphabet="ab1 é\n-", max_size=5))
def test_the_grammar_matches_at_least_as_much(pattern: str, text: str) -> None:
    try:
        found = read(pattern)
    except BadPattern:
        return
    if regex.search(found.check, text):
        # In the grammar `$` is the very end.
        assert regex.search(found.grammar.replace("$", r"\Z"), text)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"^[\x00-\x1f]$", r"^[\x00-\x0f\x10-\x1f]$", r"^[\0-\x20]$", r"^[\0\x01-\x1f]$"),
        *(r'^[^"\\]$', r"^[^!-~]$", r'^(?:a|[^"\\])$', r"^[^ -~]$", r"^[\s\x00-\x1f]$"),
        *(r"^[^\p{P}]$", r"^\P{P}$", r"^[\P{P}]$", r"^[\n\P{P}]$"),
    ],
)
def test_a_set_with_all_control_characters_has_no_quote_in_the_grammar(pattern: str) -> None:
    vocabulary = byte_vocabulary()
    schema = {"type": "object", "properties": {"p": {"type": "string", "pattern": pattern}}}
    tool = Callee("t", {**schema, "required": ["p"]}, "tools[0]")
    compiler = ConstraintCompiler(vocabulary, can_retry=True)
    constraint = compiler.compile_now(Plan(HERMES, "required", (tool,), parallel=False))
    compiler.close()

    def found(character: str) -> str:
        arguments = json.dumps({"p": character})
        return verdict(constraint, vocabulary, render_calls(HERMES, [PastCall("", "t", arguments)]))

    assert [found(character) for character in ('"', "\\")] == ["grammar", "grammar"]
    assert found("\b") == "accepted"


@pytest.mark.parametrize(
    "pattern",
    [
        "a" * 20_001,
        "(" * 101 + ")" * 101,
        "((a{1,100}){1,100}){1,100}",
        "(a{1000}){1000}",
        "a{999999999999}",
        r"(a{300})(\1\1\1\1\1\1){100}",
    ],
)
def test_size_is_bounded(pattern: str) -> None:
    with pytest.raises(BadPattern, match=r"longer|nested|larger"):
        read(pattern)


def test_size_counts_repetitions() -> None:
    assert read("^[a-z]{2,40}$").size > 40
    assert read("^(?:ab){500}$").size > 1000
    assert read("^ab$").size < 10


def test_complements_are_complete() -> None:
    for ranges in (patterns.DIGIT, patterns.WORD, patterns.SPACE, patterns.LINE_END):
        both = sorted((*ranges, *complement(ranges)))
        assert both[0][0] == 0
        assert both[-1][1] == patterns.TOP
        assert all(one[1] + 1 == other[0] for one, other in pairwise(both))
