from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.payloads import (
    JSON,
    Keywords,
    Payload,
    Quoted,
    Tags,
    json_type,
    python,
    write_arguments,
)

ARGUMENTS = {"to": "Ann\n«key»", "n": 3, "cc": ["x", "y"], "Deep": {"b": True, "a": None}}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        (JSON, json.dumps(ARGUMENTS, ensure_ascii=False)),
        (
            Tags("<p=«key»>\n«value»\n</p>\n"),
            "<p=to>\nAnn\n«key»\n</p>\n<p=n>\n3\n</p>\n"
            '<p=cc>\n["x", "y"]\n</p>\n<p=Deep>\n{"b": true, "a": null}\n</p>\n',
        ),
        (
            Tags('<p «key» string="«isstr»" type="«type»">«value»</p>'),
            '<p to string="true" type="string">Ann\n«key»</p>'
            '<p n string="false" type="number">3</p>'
            '<p cc string="false" type="array">["x", "y"]</p>'
            '<p Deep string="false" type="object">{"b": true, "a": null}</p>',
        ),
        (Quoted("|"), "{cc:[|x|,|y|],Deep:{a:null,b:true},n:3,to:|Ann\n«key»|}"),
        (
            Keywords("'"),
            "to='Ann\\n«key»', n=3, cc=['x', 'y'], Deep={\"b\": true, \"a\": null}",
        ),
    ],
)
def test_arguments_in_each_notation(payload: Payload, written: str) -> None:
    assert write_arguments(payload, ARGUMENTS) == written


@pytest.mark.parametrize("payload", [JSON, Tags("«key»«value»"), Quoted("|"), Keywords("'")])
def test_what_is_a_text_is_written_already(payload: Payload) -> None:
    assert write_arguments(payload, "«name»") == "«name»"


@given(VALUES, st.sampled_from("'\""))
def test_python_literals_are_read_by_python(value: object, quote: str) -> None:
    text = python(quote, value)
    if "\0" not in text:
        assert ast.literal_eval(text) == value


def test_types_are_those_of_json() -> None:
    values: list[object] = [None, True, 1, 1.5, "x", {}, []]
    names = ["null", "boolean", "number", "number", "string", "object", "array"]
    assert [json_type(value) for value in values] == names
