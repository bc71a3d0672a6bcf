from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from prompts.budget import Limits, TemplateFailed, TemplateTooCostly
from prompts.sandbox import ChatTemplate

SMALL = Limits(max_size=100_000, max_steps=200_000, max_seconds=1.0)


def render(source: str, **variables: Any) -> str:
    return ChatTemplate(source, SMALL).render(variables)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ {'b': '<é>', 'a': [1, none, true]} | tojson }}", '{"b": "<é>", "a": [1, null, true]}'),
        ("{{ {'a': 'é'} | tojson(ensure_ascii=True) }}", '{"a": "é"}'),
        ("{{ {'a': 1} | tojson(indent=4) }}", '{\n    "a": 1\n}'),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", '{"a": 2, "b": 1}'),
        ("{{ [{'f': 1}] | map(attribute='f') | tojson }}", "[1]"),
        ("{{ '<b>' | safe }}{{ '<b>' }}", "<b><b>"),
        ("{{ '{\"a\": [1]}' | from_json | length }}", "1"),
        ("{% generation %}x{% set y = 1 %}{% endgeneration %}{{ y }}", "x1"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"),
        (
            "{% for x in 'abc' %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% endfor %}",
            "1False32False33True3",
        ),
        ("{% for x in [] %}{% else %}none{% endfor %}", "none"),
        (
            "{% for x in [[1], [2]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}",
            "12",
        ),
        ("{% set ns = namespace(l=[]) %}{% set _ = ns.l.append(1) %}{{ ns.l.pop() }}", "1"),
        (
            "{{ 'a-b'.split('-') }}{{ 'aa'.replace('a', 'b', 1) }}{{ '-'.join([1]) }}",
            "['a', 'b']ba1",
        ),
        ("{{ '<{}>'.format('q') }}{{ '%s' % 'q' }}{{ 1 ~ none ~ 'x' }}", "<q>q1Nonex"),
        ("{{ ' A ' | trim | lower }}{{ 'a' | upper }}{{ [1, 2] | join(', ') }}", "aA1, 2"),
        ("{{ 'a\nb' | indent(2) }}{{ 'aba' | replace('a', 'c') }}", "a\n  bcbc"),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) + m(2) }}", "[1][2]"),
        ("{{ undefined_name }}{{ none }}{{ 2 ** 10 }}", "None1024"),
        ("a\n{% if true %}\n  b\n{% endif %}\n", "a\n  b\n"),
        ("{{ [1, 2] == [1, 2] }}{{ [1] != x }}{{ 1 < 2 <= 2 }}{{ 1 in [1] }}", "TrueTrueTrueTrue"),
        ("{{ 'a' not in 'bc' }}{{ 'k' in {'k': 1} }}{{ missing == none }}", "TrueTrueFalse"),
        ("{{ [3, 1, 2][1:] }}{{ 'abcd'[::-1] }}{{ [1, 2, 3][:-1] | last }}", "[1, 2]dcba2"),
        (
            "{{ (1, 2)[0] }}{{ {'a': [1]}['a'][0] }}{{ {1: 2}[1] }}{% set a, b = 1, 2 %}{{ b }}",
            "1122",
        ),
        ("{{ [3, 1] | sort }}{{ [1, 1] | unique | list }}{{ [1, 2] | sum }}", "[1, 3][1]3"),
        (
            "{{ [{'n': 2}] | sum(attribute='n') }}{{ 2.567 | round(1) }}{{ 2 | round(0, 'ceil') }}",
            "22.62.0",
        ),
        (
            "{{ '12' | int + 1 }}{{ 'x' | int(7) }}{{ '1.9' | int }}{{ 'ff' | int(0, 16) }}",
            "1371255",
        ),
        (
            "{{ [1, none] | select('none') | list }}{{ ['a', 'b'] | reject('in', ['a']) | list }}",
            "[None]['b']",
        ),
        ("{{ [{'r': 'u'}, {'r': 'a'}] | selectattr('r', 'equalto', 'a') | list | length }}", "1"),
        (
            "{{ {'b': 1, 'a': 2} | dictsort }}{{ {'a': 1} | items | list }}",
            "[('a', 2), ('b', 1)][('a', 1)]",
        ),
        (
            "{% for r, g in [{'r': 1}, {'r': 1}] | groupby('r') %}{{ g | count }}{% endfor %}",
            "2",
        ),
        (
            "{{ 'abc' | reverse }}{{ [1, 2] | reverse | list }}{{ [2, 1] | min }}{{ [1] | first }}",
            "cba[2, 1]11",
        ),
        ("{{ {'a': 1}.get('a') }}{{ {'a': 1}.keys() | list }}{{ [1, 2].index(2) }}", "1['a']1"),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x ~ x }}{{ [x, x] | join('-') }}", "a1a1a1-a1"),
        ("{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %}", "TrueFalseTrue"),
    ],
)
def test_what_chat_templates_use_works_as_they_expect(source: str, text: str) -> None:
    assert render(source) == text


def test_the_date_is_fixed() -> None:
    assert render("{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }}") == (
        "2024-07-26 26 Jul 2024"
    )


def again_and_again(start: str, step: str) -> str:
    """A template that applies `step` to `n.x` sixty times."""
    return (
        "{% set n = namespace(x=" + start + ") %}{% for i in range(60) %}"
        "{% set n.x = " + step + " %}{% endfor %}"
    )


IN_A_MACRO = (
    "{% set b = 'x' * 9999 %}{% macro m() %}{% for i in range(9999) %}BODY{% endfor %}"
    "{% endmacro %}{{ m() | length }}"
)


TWO_NESTS = (
    "{% set n = namespace(x=[1], y=[1], t=(1,)) %}{% for i in range(60) %}"
    "{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% set n.t = (n.t, n.t) %}{% endfor %}"
)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 10**9 }}",
        "{{ [0] * 10**9 }}",
        "{{ 10**9 * 'x' }}",
        "{{ 9 ** (9 ** 9) }}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        again_and_again("2", "n.x * n.x"),
        again_and_again("'x'", "n.x ~ n.x"),
        again_and_again("'x'", "n.x + n.x"),
        again_and_again("[1]", "n.x + n.x"),
        again_and_again("'x'", "[n.x, n.x] | join"),
        again_and_again("'x'", "n.x.join([n.x, n.x])"),
        again_and_again("'x'", "n.x.replace('x', 'xx')"),
        again_and_again("'x'", "n.x | replace('x', 'xx')"),
        again_and_again("[1]", "[n.x, n.x]") + "{{ n.x }}",
        again_and_again("[1]", "[n.x, n.x]") + "{{ n.x | tojson }}",
        again_and_again("[1]", "{'a': n.x, 'b': n.x}") + "{{ n.x | string }}",
        IN_A_MACRO.replace("BODY", "{{ b }}"),
        IN_A_MACRO.replace("BODY", "{{ b | upper }}"),
        IN_A_MACRO.replace("BODY", "{{ 'x' * 9999 }}"),
        "{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{% set t = '{0}' * 9000 %}{{ t.format('x' * 9999) }}",
        "{{ ('%s' * 900) % ('x' * 9999) }}",
        # Lists inside lists: small to make, and without end for whoever goes through them.
        *(
            TWO_NESTS + use
            for use in (
                "{{ n.x == n.y }}",
                "{{ n.x < n.y }}",
                "{{ n.x in [n.y] }}",
                "{{ [n.x, n.y] | sort }}",
                "{{ [n.x, n.y] | max }}",
                "{{ [n.x, n.y] | unique | list }}",
                "{{ [n.x] | select('equalto', n.y) | list }}",
                "{% if n.x is eq n.y %}{% endif %}",
                "{% if n.x is in [n.y] %}{% endif %}",
                "{{ '{}'.format(n.x) }}",
                "{{ '%s' % n.x }}",
                "{{ n }}",
                "{{ [n] | string }}",
                "{{ '{}'.format(n) }}",
                "{{ {'a': n} == {'a': n.y} }}",
                "{{ '%s' % (n.x,) }}",
                "{{ ', '.join([n.x]) }}",
                "{{ raise_exception(n.x) }}",
                "{{ {'a': n.x}.items() }}",
                "{{ [n.x].index(n.y) }}",
                "{% for i in [n.x, n.y] %}{{ loop.changed(i) }}{% endfor %}",
                "{{ {}.get(n.t) }}",
                "{{ {n.t: 1} }}",
                "{{ dict([(n.t, 1)]) }}",
            )
        ),
        # What costs most between two steps.
        "{% set x = 'ab' * 40000 %}{% for i in range(9999) %}"
        + "{% if 'zz' in x %}{% endif %}" * 99
        + "{% endfor %}",
        "{% set x = [0] * 9999 %}" + ("{{ x" + " | sort" * 50 + " }}") * 50,
        "{% set x = [0] * 9999 %}" + ("{{ x" + " | reverse | list" * 50 + " }}") * 50,
        "{% set x = [0] * 9999 %}"
        + ("{{ x" + " | reject('none')" * 50 + " | select('none') | list }}") * 50,
        # What keeps all that it makes.
        *(
            "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% for j in range(9) %}"
            + f"{{% set _ = n.l.append({kept}) %}}"
            + "{% endfor %}{% endfor %}"
            for kept in (
                "range(9999) | list",
                "range(9999) | map('string') | list",
                "[" + "0," * 9999 + "]",
                "('a ' * 9999).split()",
                "('[],' * 0 + '[' + '[],' * 9999 + '0]') | from_json",
                "([0] * 9999)[1:]",
                "('x' * 9999)[1:]",
                "[0] * 9999",
                "{'a': 1}.items() | list",
            )
        ),
        "{% set x %}{{ 'x' * 9999 }}{% endset %}{% set n = namespace(l=[]) %}"
        "{% for i in range(9999) %}{% set y %}{{ x }}{{ i }}{% endset %}"
        "{% set n.l = [n.l, y] %}{% endfor %}",
    ],
)
@pytest.mark.timeout(60)
def test_a_template_cannot_hold_up_the_server(source: str) -> None:
    started = time.thread_time()
    with pytest.raises(TemplateTooCostly):
        render(source)
    assert time.thread_time() - started < 5 * SMALL.max_seconds


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ [].__class__.__base__.__subclasses__() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['os'] }}",
        "{{ messages.__getitem__(0) }}",
        "{{ strftime_now.__self__.today() }}",
        "{{ messages.clear() }}",
        "{{ messages[0].update(a=1) }}",
        "{{ 'x'.center(10**9) }}",
        "{{ 'x'.ljust(10**9) }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ '{0.__class__.__mro__}'.format(1) + 1 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ {} | tojson(indent=10**9) }}",
        "{{ 'x' | indent(10**9) }}",
        "{{ lipsum(10**6) }}",
        "{{ range(10**9) }}",
        "{% include '../facts.py' %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ raise_exception('no tools here') }}",
        "{{ missing.attribute.deep }}",
        "{% for a, b in [1] %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ 1 | round(10**9, 'ceil') }}",
        "{{ 1 | round(-10**9) }}",
        "{{ ([[1]] * 9999) | sum(start=[]) }}",
        "{{ ('f' * 99999) | int(0, 16) // 3 }}",
        "{{ (1).to_bytes(10**9, 'big') }}",
        "{{ {}.fromkeys(range(9), 1) }}",
        "{{ [1] | tojson(separators=('x' * 9999, ':')) }}",
        "{{ strftime_now('%Y' * 9999) }}",
        "{{ {}[(1, 2)] }}",
    ],
)
def test_what_a_template_may_not_do_is_one_readable_line(source: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        render(source, messages=[{"role": "user"}])
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("line\n{% for %}", "line 2"),
        ("{{ x | no_such_filter }}", "no_such_filter"),
        ("{% if x %}", "line 1"),
        ("x" * 250_001, "too long"),
        ("{{" + "(" * 5000, "Recursion"),
    ],
)
def test_a_template_that_does_not_compile_says_where(source: str, part: str) -> None:
    with pytest.raises(TemplateFailed, match=part):
        ChatTemplate(source)


def test_the_message_of_raise_exception_is_passed_on() -> None:
    with pytest.raises(TemplateFailed, match=r"^only users$"):
        render("{{ raise_exception('only users\nsecond line') }}")


def test_threads_may_share_a_template() -> None:
    template = ChatTemplate(again_and_again("''", "n.x ~ who") + "{{ n.x }}")
    outputs: dict[str, set[str]] = {who: set() for who in "abcd"}

    def work(who: str) -> None:
        outputs[who] = {template.render({"who": who}) for _ in range(20)}

    threads = [threading.Thread(target=work, args=(who,)) for who in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {who: {who * 60} for who in "abcd"}


def test_a_rendering_does_not_leave_anything_behind() -> None:
    template = ChatTemplate("{% set _ = messages.append(1) %}{{ messages | length }}")
    assert [template.render({"messages": []}) for _ in range(2)] == ["1", "1"]
