"""Grammars of custom tools: what may be written inside a JSON string, against llguidance itself."""

from __future__ import annotations

import json
import re
import time
from functools import cache

import llguidance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.formats import HERMES
from server.constraint import Constraint, ConstraintCompiler
from server.errors import ConstraintFailed, InvalidRequest
from server.lark import MAX_NAMES, BadGrammar, check_lark, inside_string
from server.outlines_backend import OutlinesBackend
from server.plan import Callee, Plan
from server.terminals import SPECIAL, NotTranslatable, escaped_pattern
from tests.driving import verdict
from tests.fakes import byte_vocabulary
from tests.serving import call

VOCABULARY = byte_vocabulary()
SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
GRAMMARS = {
    "sums": 'start: term ("+" term)*\nterm: NUMBER | "(" start ")"\nNUMBER: /[0-9]+/',
    "blanks between": "start: WORD+\nWORD: /[a-z]+/\n%ignore / +/",
    "lines between": "start: WORD+ // a\nWORD: /[a-z]+/ # b\n%import common.WS\n%ignore WS",
    "quoted": 'start: "\\"" INNER? "\\""\nINNER: /([^"\\\\]|\\\\.)+/',
    "common text": "start: ESCAPED_STRING\n%import common.ESCAPED_STRING",
    "several imports": "start: (A | W)+\n%import common (LETTER, NEWLINE)\nA: LETTER\nW: NEWLINE",
    "renamed import": "start: A N\n%import common.LETTER -> A\n%import common.NEWLINE -> N",
    "anything": "start: /(.|\\n)*/",
    "a dot with lines": "start: /a.b/s",
    "a dot in a group with lines": "start: /(?s:.)+a(?s)./",
    "a dot": "start: /.+/",
    "white space": "start: /\\s+\\S?\\w\\W/",
    "a range": 'start: (" ".."0")+',
    "a range of few": 'start: ("0".."9" | "\\t".."\\n")+',
    "any case": 'start: "a\\n"i /b\\\\/i',
    "codes": r"start: /\x22\x{5c}\u0061\u{0a}/",
    "a set of sets": r'start: /[[a-z]&&[^b]"]+/',
    "negated": r"start: /[^a\n]+/",
    "only what is escaped": r'start: /["\\\n\t]+/',
    "a bracket in a set": r"start: /[]a\]]+/",
    "both": 'start: AB\nAB: /[ab"]+/ & /.*b/',
    "lazy": 'start: a "b"\na[lazy]: /[ab"]*"/',
    "suffix": 'start: a "b"\na[suffix="\\""]: /[ab]*/',
    "counted": 'start: "\\n"{2,3} "a"~1..2',
    "properties": r"start: /\p{L}+\P{L}/",
    "optional": 'start: ["a"] "\\\\"?',
    "hexadecimal text": 'start: "\\x22" "\\u000a"',
}
CHECKED_ONLY = {
    "a negation": "start: A\nA: /[ab]*/ & ~/a+/",
    "free spacing": "start: /a b/x",
    "unions of sets": r"start: /[a||b]/",
}
ALPHABET = 'ab"\\\n\t \x01\x1f09+()éz\x7f'


@cache
def compiler() -> ConstraintCompiler:
    return ConstraintCompiler(VOCABULARY, can_retry=True)


@cache
def constraint(lark: str) -> Constraint:
    tool = Callee("run", SCHEMA, "here", custom=True, lark=lark)
    return compiler().compile_now(Plan(HERMES, "required", (tool,), parallel=False))


@cache
def original(lark: str) -> llguidance.LLMatcher:
    tokenizer = OutlinesBackend(VOCABULARY).tokenizer
    return llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark))


def accepts(lark: str, text: str) -> bool:
    matcher = original(lark).deep_copy()
    tokens = list(text.encode())
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def found(lark: str, text: str) -> str:
    said = call("run", json.dumps({"input": text}, ensure_ascii=False))
    return verdict(constraint(lark), VOCABULARY, said)


@pytest.mark.parametrize("name", GRAMMARS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(ALPHABET, max_size=6), min_size=1, max_size=8))
def test_just_what_the_grammar_accepts_can_be_written(name: str, texts: list[str]) -> None:
    lark = GRAMMARS[name]
    for text in texts:
        wanted = ("accepted",) if accepts(lark, text) else ("grammar", "check")
        assert found(lark, text) in wanted, text


EXAMPLES = {
    "sums": ["1+(2+3)", "12"],
    "blanks between": ["ab  c", "ab "],
    "lines between": ["ab\n\tc"],
    "quoted": ['"a\\"b"', '""'],
    "common text": ['"a\\\\b"'],
    "several imports": ["a\n\nb"],
    "anything": ['any "thing"\n\\ \x01 é'],
    "a dot with lines": ["a\nb", 'a"b'],
    "a range": ['!"#'],
    "any case": ["A\nB\\", "a\nb\\"],
    "codes": ['"\\a\n'],
    "only what is escaped": ['"\\\n\t'],
    "both": ['a"b'],
    "lazy": ['aab"b'],
    "suffix": ['ab"b'],
    "hexadecimal text": ['"\n'],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_grammar_is_for_can_be_written(name: str) -> None:
    for text in EXAMPLES[name]:
        assert accepts(GRAMMARS[name], text), text
        assert found(GRAMMARS[name], text) == "accepted", text


@pytest.mark.parametrize("lark", CHECKED_ONLY.values(), ids=CHECKED_ONLY)
def test_what_has_no_escaped_form_is_checked_when_it_is_written(lark: str) -> None:
    assert inside_string(lark) is None
    for text in ("b", "ab", "a", "a b", ""):
        assert found(lark, text) == ("accepted" if accepts(lark, text) else "check"), text


@pytest.mark.parametrize(
    ("lark", "why"),
    [
        ("start: <|im_end|>", "<|im_end|> is a special token"),
        ("start: <[3]>", "special token"),
        ('start: %json {"type": "object"}', "%json is not supported"),
        ('start: %regex {"substring_chars": "abc"}', "%regex"),
        ('%llguidance {"no_forcing": true}\nstart: "a"', "%llguidance"),
        ("start: @other", "@other"),
        ("start[max_tokens=3]: /a*/", "'max_tokens'"),
        ('start[stop="b"]: /a*/', "'stop'"),
        ("start: " + "a" * 64_001, "longer than"),
        ("\n".join(f'a{i}: "x"' for i in range(MAX_NAMES + 1)), "rules and terminals"),
    ],
)
def test_what_has_no_place_in_an_input_is_refused(lark: str, why: str) -> None:
    with pytest.raises(BadGrammar, match=r".*") as caught:
        check_lark(lark)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("lark", "why"),
    [
        ("start: ", ""),
        ("start: missing", "missing"),
        ("begin: /a/", "no start rule"),
        ("start: /(/", "invalid regex"),
        ("start: /a(?=b)/", "look-around"),
        ("start: /a", "lexer error"),
        ("start: A\nA: A", "A"),
        ("start: start", "Unsatisfiable"),
        ("hello", "Expected token"),
        ('{"grammars": []}', "expecting"),
    ],
)
def test_what_is_no_grammar_is_refused_with_the_reason(lark: str, why: str) -> None:
    if not why:
        assert found(lark, "") == "accepted"  # the empty text is a text
        return
    with pytest.raises(InvalidRequest) as caught:
        constraint(lark)
    assert caught.value.param == "here"
    assert "'run'" in caught.value.message
    assert why in caught.value.message


def test_a_model_that_cannot_go_back_gets_what_is_enforced_while_decoding() -> None:
    limited = ConstraintCompiler(VOCABULARY, can_retry=False)

    def plan(lark: str) -> Plan:
        return Plan(HERMES, "required", (Callee("run", SCHEMA, "here", custom=True, lark=lark),))

    limited.compile_now(plan(GRAMMARS["sums"]))
    with pytest.raises(InvalidRequest, match="cannot take back"):
        limited.compile_now(plan(CHECKED_ONLY["a negation"]))


@pytest.mark.parametrize("broken", ["(", ")", "[", "a)", "(?u:a)", "(?x)a", "[a", "\\", "\\q"])
def test_a_pattern_in_other_words_is_left_to_the_check(broken: str) -> None:
    with pytest.raises(NotTranslatable):
        escaped_pattern(broken, "")


def test_every_character_that_json_escapes_has_one_spelling() -> None:
    for char in SPECIAL:
        escaped = escaped_pattern(f"\\x{ord(char):02x}", "")
        assert escaped.special
        assert re.fullmatch(escaped.lexeme.strip("/"), json.dumps(char)[1:-1])


HOSTILE = {
    "a long chain": "start: a0\n"
    + "\n".join(f'a{i}: "x" a{i + 1}' for i in range(990))
    + '\na990: "y"',
    "terminals in a chain": "start: A0\n"
    + "\n".join(f'A{i}: "x" A{i + 1}' for i in range(990))
    + '\nA990: "y"',
    "many times": "start: a\na: b~1000\nb: c~1000\nc: d~1000\nd: E\nE: /x{1000}/",
    "ambiguous": 'start: start start | "a" | ""',
    "exponential": r"start: /(a|\n)*a(a|b){60}/",
    "parentheses": "start: " + "(" * 5_000 + '"a"' + ")" * 5_000,
    "a deep pattern": "start: /" + "(" * 240 + "a" + ")" * 240 + "/",
    "a large set": "start: /[" + "".join(f"\\u{{{i:x}}}" for i in range(0x4E00, 0x5600, 2)) + "]+/",
    "many alternatives": "start: " + " | ".join(f'"word{i}"' for i in range(4_000)),
    "many patterns": "start: " + " | ".join(f"/{i}[^a]*/" for i in range(3_000)),
}


@pytest.mark.parametrize("lark", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_grammar_is_refused_or_works_in_bounded_time(lark: str) -> None:
    started = time.process_time()
    try:
        guide = constraint(lark).guide()
        guide.forced()
        for _ in range(5):
            guide.mask()
        refused = ""
    except (InvalidRequest, ConstraintFailed) as exc:
        refused = exc.message
    assert len(refused) < 1_000
    assert time.process_time() - started < 10
