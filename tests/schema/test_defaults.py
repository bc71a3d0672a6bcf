from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.schema.defaults import Defaults
from server.schema.prepare import prepare

JsonObject = dict[str, Any]
ONE: JsonObject = {"type": "integer", "default": 1}
WHOLE: JsonObject = {"type": "integer"}


def defaults(schema: JsonObject) -> Defaults:
    return Defaults(schema, prepare(schema, arguments=True).checker)


def of(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "written", "completed"),
    [
        (of(a=ONE, b=WHOLE), "{}", '{"a": 1}'),
        (of(a=ONE, b=WHOLE), '{"b": 2}', '{"b": 2, "a": 1}'),
        (of(a=ONE), '{"a": 5}', '{"a": 5}'),
        (of(a={"default": None}, b={"default": "é\n"}), "{}", '{"a": null, "b": "é\\n"}'),
        (of(a=of(b=ONE)), "{}", "{}"),
        (of(a=of(b=ONE)), '{"a": {}}', '{"a": {"b": 1}}'),
        (
            of(a={"type": "array", "items": of(b=ONE, c=WHOLE)}),
            '{"a": [{}, {"c": 2}]}',
            '{"a": [{"b": 1}, {"c": 2, "b": 1}]}',
        ),
        (
            of(a={"type": "array", "prefixItems": [of(b=ONE)], "items": WHOLE}),
            '{"a": [{}, 1]}',
            '{"a": [{"b": 1}, 1]}',
        ),
        (
            {**of(a={"$ref": "#/$defs/d"}), "$defs": {"d": of(b=ONE)}},
            '{"a": {}}',
            '{"a": {"b": 1}}',
        ),
        (
            {
                **of(a={"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}),
                "$defs": {"d": of(b=ONE)},
            },
            '{"a": {}}',
            '{"a": {"b": 1}}',
        ),
        (of(a={"anyOf": [of(b=ONE), of(c=ONE)]}), '{"a": {}}', '{"a": {}}'),  # which one?
        (of(a={"allOf": [of(b=ONE), of(c=ONE)]}), '{"a": {}}', '{"a": {"b": 1, "c": 1}}'),
        (of(a={"type": "integer", "default": "x"}, b=ONE), "{}", '{"b": 1}'),
        ({**of(a=ONE, b=ONE), "maxProperties": 1}, "{}", '{"a": 1}'),
        ({**of(a=ONE, b=WHOLE), "dependentRequired": {"a": ["b"]}}, "{}", "{}"),
        ({**of(a=ONE, b=ONE), "dependentRequired": {"a": ["b"]}}, "{}", '{"a": 1, "b": 1}'),
        ({"anyOf": [of(a=ONE), of(b=ONE)], "type": "object"}, "{}", "{}"),
        (of(a={"default": {"b": {}}, **of(b=of(c=ONE))}), "{}", '{"a": {"b": {}}}'),
        (of(**{'quo"te': ONE}), "{}", '{"quo\\"te": 1}'),
    ],
)
def test_defaults_are_put_in_where_it_is_certain(
    schema: JsonObject, written: str, completed: str
) -> None:
    assert defaults(schema).complete(written) == completed


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = of(a=ONE, child={"$ref": "#"})
    written = '{"child": ' * 40 + "{}" + "}" * 40
    completed = json.loads(defaults(schema).complete(written))
    assert (completed["a"], completed["child"]["a"]) == (1, 1)
    endless: JsonObject = {"type": "object", "allOf": [{"$ref": "#"}], "properties": {"a": ONE}}
    assert (
        Defaults(endless, prepare(of(a=ONE), arguments=True).checker).complete("{}") == '{"a": 1}'
    )


def test_only_objects_within_need_the_whole_text() -> None:
    assert not defaults(of(a=ONE, b={"type": "array"})).nested
    assert defaults(of(a=ONE, b=of(c=ONE))).nested


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 12)),
    st.integers(1, 4),
)
def test_what_is_completed_satisfies_the_schema_and_keeps_what_was_written(
    value: dict[str, int], given_defaults: dict[str, int], most: int
) -> None:
    properties = {name: {"type": "integer", "maximum": 9} for name in "abcd"}
    schema = of(
        **{
            name: {**inner, **({"default": given_defaults[name]} if name in given_defaults else {})}
            for name, inner in properties.items()
        }
    )
    schema["maxProperties"] = max(most, len(value))
    written = json.dumps(value)
    text = defaults(schema).complete(written)
    assert text.startswith(written[:-1])
    completed = json.loads(text)
    assert not prepare(schema, arguments=True).checker.complaints(completed)
    for name in completed.keys() - value.keys():
        assert completed[name] == given_defaults[name]
