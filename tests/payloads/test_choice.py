"""Whatever satisfies a schema can be written and is read back; what does not cannot be written."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import llguidance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.payloads import JSON, Keywords, Payload, Quoted, Tags, write_arguments
from server.engine.vocabulary import Vocabulary
from server.outlines_backend import OutlinesBackend
from server.payloads.choice import arguments_rule, is_exact, new_reader, parameters_of
from server.payloads.rules import Rules
from server.schema.prepare import prepare
from tests.fakes import byte_vocabulary

JsonObject = dict[str, Any]

QWEN = Tags("<parameter=«key»>\n«value»\n</parameter>\n")
GLM = Tags("<arg_key>«key»</arg_key>\n<arg_value>«value»</arg_value>\n")
# The end of an argument is a special token, as GLM has it.
TOKEN = Tags("<arg>«key»=«value»\n</tool_call>\n")
TOLD = Tags('<｜DSML｜parameter name="«key»" string="«isstr»">«value»</｜DSML｜parameter>\n')
TYPED = Tags('<|open|>argument key="«key»" type="«type»"<|sep|>«value»<|close|>argument<|sep|>')
GEMMA, GEMMA_TOKEN = Quoted('<|"|>'), Quoted("<tool_call>")
PAYLOADS: list[Payload] = [
    JSON,
    QWEN,
    GLM,
    TOKEN,
    TOLD,
    TYPED,
    GEMMA,
    GEMMA_TOKEN,
    Keywords("'"),
    Keywords('"'),
]
payloads = pytest.mark.parametrize("payload", PAYLOADS, ids=str)


@cache
def backend() -> tuple[Vocabulary, OutlinesBackend]:
    return byte_vocabulary(), OutlinesBackend(byte_vocabulary())


def tail(payload: Payload) -> str:
    return ")" if isinstance(payload, Keywords) else "</end>"


class Notation:
    """The grammar and the readers of one schema in one notation."""

    def __init__(self, payload: Payload, schema: JsonObject) -> None:
        self.payload = payload
        self.prepared = prepare(schema, arguments=True)
        vocabulary, outlines = backend()
        rules = Rules(vocabulary.split_special)
        rule = arguments_rule(rules, payload, self.prepared.grammar, literal=False)
        lines = ["%llguidance {}", *rules.lines, f"start: {rule} {json.dumps(tail(payload))}", ""]
        grammar = llguidance.LLMatcher.grammar_from_lark("\n".join(lines))
        self.matcher = llguidance.LLMatcher(outlines.tokenizer, grammar, log_level=0)
        assert not self.matcher.is_error(), self.matcher.get_error()

    def accepts(self, text: str) -> bool:
        vocabulary, _ = backend()
        tokens: list[int] = []
        for part in vocabulary.split_special(text + tail(self.payload)):
            tokens += [part] if isinstance(part, int) else list(part.encode())
        matcher = self.matcher.deep_copy()
        return matcher.try_consume_tokens(tokens) == len(tokens) and bool(matcher.is_accepting())

    def read(self, text: str, size: int) -> Any:
        reader = new_reader(
            self.payload, parameters_of(self.prepared.grammar, self.prepared.checker)
        )
        data, shown = (text + tail(self.payload)).encode(), ""
        while reader.rest is None:
            assert data, "the end was not found"
            shown += reader.feed(data[:size])
            data = data[size:]
        assert reader.rest + data == tail(self.payload).encode()
        return json.loads(shown)

    def check(self, arguments: JsonObject) -> None:
        """The arguments can be written, and are read as what they were."""
        text = write_arguments(self.payload, arguments)
        assert self.accepts(text), text
        for size in (1, 2, 5, 10_000):
            assert self.read(text, size) == arguments

    def refuses(self, arguments: JsonObject) -> bool:
        return not self.accepts(write_arguments(self.payload, arguments))


EVERYTHING = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "maximum": 14},
        "note": {"type": ["string", "null"]},
        "kind": {"enum": ["a", "b c", 3, None]},
        "near": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "where": {
            "type": "object",
            "properties": {"x": {"type": "string", "pattern": "^[a-c]+$"}, "y": {"type": "number"}},
            "required": ["y"],
        },
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "items": False,
            "minItems": 1,
        },
        "rest": {},
    },
    "required": ["city"],
}


@cache
def everything(payload: Payload) -> Notation:
    return Notation(payload, EVERYTHING)


@payloads
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"days": 3},
        {"note": None},
        {"note": "no\n"},
        {"kind": 3},
        {"kind": "b c"},
        {"kind": None},
        {"near": True},
        {"tags": ["p", "q}],\"'"]},
        {"where": {"x": "abc", "y": 1.5}},
        {"where": {"y": -2}},
        {"pair": ["a", 1]},
        {"pair": ["a"]},
        {"rest": {"q": [1, {"a": None}], "r": "s"}},
        {"rest": []},
        {"rest": "text"},
        {"days": 0, "near": False, "rest": 1.25},
    ],
    ids=str,
)
def test_what_satisfies_the_schema_is_written_and_read_back(
    payload: Payload, more: JsonObject
) -> None:
    everything(payload).check({"city": "Zü\nrich \"'\\ </x", **more})
    everything(payload).check({"city": "", **more})


@payloads
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"days": 3},
        {"city": "x", "days": 15},
        {"city": "x", "days": "three"},
        {"city": "x", "kind": "c"},
        {"city": "x", "near": 1},
        {"city": "x", "tags": []},
        {"city": "x", "tags": ["a", "b", "c", "d"]},
        {"city": "x", "tags": [1]},
        {"city": "x", "where": {}},
        {"city": "x", "where": {"x": "abd", "y": 1}},
        {"city": "x", "where": {"y": 1, "z": 1}},
        {"city": "x", "pair": []},
        {"city": "x", "pair": ["a", "b"]},
        {"city": "x", "pair": ["a", 1, 2]},
        {"city": "x", "other": 1},
    ],
    ids=str,
)
def test_what_does_not_satisfy_the_schema_cannot_be_written(
    payload: Payload, arguments: JsonObject
) -> None:
    assert everything(payload).refuses(arguments)


TEXTS = st.text(st.characters(exclude_characters="\x7f\0", exclude_categories=["Cs"]), max_size=12)
OTHERS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(PAYLOADS), TEXTS, OTHERS)
def test_any_values_come_back(payload: Payload, text: str, other: object) -> None:
    if _is_told(payload, other):
        everything(payload).check({"city": text, "rest": other})


def _is_told(payload: Payload, value: object) -> bool:
    """Whether a value is told from others: without types, the text `3` is read as the number."""
    if payload not in (QWEN, GLM, TOKEN) or not isinstance(value, str):
        return True
    try:
        json.loads(value)
    except ValueError:
        return value not in ("True", "False", "None")
    return False


@payloads
def test_no_arguments(payload: Payload) -> None:
    notation = Notation(payload, {"type": "object", "properties": {}})
    notation.check({})
    assert notation.refuses({"a": 1})


TREE = {
    "type": "object",
    "properties": {"t": {"$ref": "#/$defs/n"}},
    "required": ["t"],
    "$defs": {
        "n": {
            "type": "object",
            "properties": {
                "v": {"type": "string", "minLength": 2},
                "c": {"type": "array", "items": {"$ref": "#/$defs/n"}},
            },
            "required": ["v"],
        }
    },
}


@payloads
def test_schemas_that_contain_themselves(payload: Payload) -> None:
    notation = Notation(payload, TREE)
    # In the order in which Gemma's notation has keys.
    order = ("c", "v") if isinstance(payload, Quoted) else ("v", "c")
    leaf = {"v": "ef", "c": []}
    tree = {"v": "ab", "c": [{"v": "cd"}, {key: leaf[key] for key in order}]}
    notation.check({"t": {key: tree[key] for key in order}})
    assert notation.refuses({"t": {"v": "ab", "c": [{"v": "c"}]}})
    assert is_exact(payload, notation.prepared.grammar)


WAYS = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "n": {"type": "integer"}, "t": {"type": "string"}},
    "required": ["kind"],
    "anyOf": [
        {"properties": {"kind": {"const": "number"}}, "required": ["n"]},
        {"properties": {"kind": {"const": "text"}}, "required": ["t"]},
    ],
}


@payloads
def test_alternatives_of_all_arguments_are_told_apart(payload: Payload) -> None:
    notation = Notation(payload, WAYS)
    notation.check({"kind": "number", "n": 1})
    notation.check({"kind": "text", "t": "x"})
    assert notation.refuses({"kind": "number", "t": "x"})
    assert notation.refuses({"kind": "text", "n": 1})


STRINGS = [
    ({"minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
    ({"pattern": "^[a-z]{2}$"}, ["ab"], ["abc", "A"]),
    ({"pattern": "ab|^c"}, ["xabx", "cx"], ["xc"]),
    ({"pattern": "a$"}, ["ba", "a"], ["ab"]),
    ({"pattern": "^a/b$", "minLength": 3}, ["a/b"], ["ab"]),
    ({"format": "date"}, ["2024-02-29"], ["2023-02-29", "2024-2-2"]),
    ({"format": "email"}, ["a.b@c.org"], ["a.b", "@"]),
    ({"format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
    ({"format": "ipv6"}, ["2001:db8::1", "::1", "1:2:3:4:5:6:7:8"], ["12", "1:2"]),
    ({"enum": ["a", "b\nc", ""]}, ["a", "b\nc", ""], ["b"]),
    ({"const": "x"}, ["x"], ["y"]),
    ({"allOf": [{"minLength": 2}, {"pattern": "^a"}]}, ["ab"], ["a", "bb"]),
]


@payloads
@pytest.mark.parametrize(("schema", "good", "bad"), STRINGS, ids=[str(s[0]) for s in STRINGS])
def test_texts_are_held_to_their_keywords(
    payload: Payload, schema: JsonObject, good: list[str], bad: list[str]
) -> None:
    properties = {"v": {"type": "string", **schema}}
    notation = Notation(payload, {"type": "object", "properties": properties, "required": ["v"]})
    for text in good:
        notation.check({"v": text})
    assert all(notation.refuses({"v": text}) for text in bad)
    assert is_exact(payload, notation.prepared.grammar)


@pytest.mark.parametrize("pattern", ["(^a|b)c", "(?!a)b", r"\ba"])
def test_a_pattern_that_no_grammar_has_is_left_to_the_check(pattern: str) -> None:
    schema = {"type": "object", "properties": {"v": {"type": "string", "pattern": pattern}}}
    prepared = prepare(schema, arguments=True)
    assert prepared.says_less or not is_exact(QWEN, prepared.grammar)


@pytest.mark.parametrize("payload", [QWEN, GLM, TOKEN])
def test_where_types_are_not_told_json_counts_if_it_will_do(payload: Payload) -> None:
    either = {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "maximum": 5}]}
    properties = {"v": either, "b": {"type": ["boolean", "string"]}}
    notation = Notation(payload, {"type": "object", "properties": properties})
    for text, value in [("5", 5), ("6", "6"), ("05", "05"), ("abc", "abc")]:
        written = write_arguments(payload, {"v": text})
        assert notation.accepts(written)
        assert notation.read(written, 3) == {"v": value}
    assert notation.read(write_arguments(payload, {"b": "True"}), 3) == {"b": True}


@pytest.mark.parametrize("payload", [QWEN, Keywords("'")])
def test_words_of_python_are_taken_for_those_of_json(payload: Payload) -> None:
    properties = {"b": {"type": "boolean"}, "n": {"type": "null"}}
    notation = Notation(payload, {"type": "object", "properties": properties})
    text = write_arguments(payload, {"b": True, "n": None})
    text = text.replace("true", "True").replace("null", "None")
    assert notation.accepts(text)
    assert notation.read(text, 1) == {"b": True, "n": None}


def test_texts_of_python_may_have_escapes_and_either_quote() -> None:
    notation = Notation(Keywords("'"), {"type": "object", "properties": {"v": {"type": "string"}}})
    for text, value in [
        (r"v='it\'s \"\\\n'", "it's \"\\\n"),
        ('v="it\'s"', "it's"),
        (r'v="ü\""', 'ü"'),
    ]:
        assert notation.accepts(text)
        for size in (1, 3, 100):
            assert notation.read(text, size) == {"v": value}


def test_an_end_that_stands_in_a_text_ends_it() -> None:
    notation = Notation(QWEN, {"type": "object", "properties": {"v": {"type": "string"}}})
    assert not notation.accepts(write_arguments(QWEN, {"v": "a\n</parameter>\nb"}))


def test_nothing_satisfies_some_schemas() -> None:
    with pytest.raises(ValueError, match="Unsatisfiable"):
        arguments_rule(Rules(lambda text: [text]), QWEN, {"type": "string"}, literal=True)


def test_numbers_tell_how_many_digits_are_left() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    for payload in PAYLOADS:
        notation = Notation(payload, schema)
        parameters = parameters_of(notation.prepared.grammar, notation.prepared.checker)
        for value, fewer in [(1234, True), ("1234", False)]:
            reader = new_reader(payload, parameters)
            name = "n" if fewer else "s"
            begun, _, _ = write_arguments(payload, {name: value}).partition("1234")
            reader.feed(begun.encode())
            before = reader.digits_left
            reader.feed(b"12")
            assert (reader.digits_left < before) == fewer
