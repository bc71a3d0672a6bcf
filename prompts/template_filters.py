"""The filters and tests that chat templates may use, each within the budget of its rendering."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context

from prompts.budget import Budget, TemplateFailed

BUDGET = "the budget"  # not an identifier: no template can name or replace it

_FILTERS = frozenset(
    "abs count d default dictsort first float groupby items last length map max min reject"
    " rejectattr reverse select selectattr sort unique".split()
)
# What compares or hashes whole values, and what gives its items one by one.
_COMPARING_FILTERS = frozenset("dictsort groupby max min sort unique".split())
_LAZY_FILTERS = frozenset("items map reject rejectattr reverse select selectattr unique".split())
_COMPARING_TESTS = frozenset(
    "eq == equalto ne != lt < lessthan le <= gt > greaterthan ge >= in".split()
)
_MAX_INDENT = 16
_MAX_SEPARATOR_CHARS = 16
_MAX_NUMBER_CHARS = 400
_MAX_PRECISION = 30

Filter = Callable[..., Any]


def budget_of(context: Context) -> Budget:
    budget: Budget = context[BUDGET]
    return budget


def bounded_filters(known: Mapping[str, Any]) -> dict[str, Any]:
    """Those of Jinja's filters that are allowed, and our own in place of some."""
    kept = {name: _bounded(name, known[name]) for name in _FILTERS}
    return {**kept, **_own_filters()}


def bounded_tests(known: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _compares(test) if name in _COMPARING_TESTS else test for name, test in known.items()
    }


def _compares(test: Filter) -> Filter:
    @pass_context
    def run(context: Context, *values: Any) -> Any:
        for value in values:
            budget_of(context).walk(value)
        return test(*values)

    return run


def _bounded(name: str, inner: Filter) -> Filter:
    """One of Jinja's filters; those that want a context or an environment get it."""
    wanted = getattr(getattr(inner, "jinja_pass_arg", None), "name", "")

    @pass_context
    @wraps(inner, assigned=("__name__",), updated=())
    def run(context: Context, *values: Any, **options: Any) -> Any:
        budget = budget_of(context)
        budget.step()
        budget.check_time()
        if name in _COMPARING_FILTERS:
            for value in values:
                budget.walk(value)
        first = {
            "context": (context,),
            "environment": (context.environment,),
            "eval_context": (context.eval_ctx,),
        }.get(wanted, ())
        result = inner(*first, *values, **options)
        if name in _LAZY_FILTERS and not isinstance(result, str):
            return _lazy(context, result)
        budget.made(result)
        return result

    return run


def _own_filters() -> dict[str, Filter]:
    return {
        "from_json": _from_json,
        "indent": _indent,
        "int": _int,
        "join": join,
        "list": _list,
        "replace": _replace,
        "round": _round,
        "safe": _string,  # nothing is escaped here
        "string": _string,
        "sum": _sum,
        "tojson": _tojson,
        "capitalize": _text_filter(str.capitalize),
        "lower": _text_filter(str.lower),
        "trim": _text_filter(str.strip),
        "upper": _text_filter(str.upper),
    }


@pass_context
def output(context: Context, value: Any) -> str:
    """What `{{ value }}` prints."""
    return budget_of(context).text(value)


@pass_context
def _from_json(context: Context, text: str) -> Any:
    budget_of(context).build_items(text.count(",") + text.count("[") + text.count("{"))
    return json.loads(text)


def _int(value: Any, default: int = 0, base: int = 10) -> int:
    if isinstance(value, str):
        if len(value) > _MAX_NUMBER_CHARS:
            raise TemplateFailed("a number that long is not supported")
        try:
            return int(value, base)
        except ValueError:
            pass
    try:
        return int(float(value)) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if not isinstance(value, int | float) or abs(precision) > _MAX_PRECISION:
        raise TemplateFailed("this cannot be rounded")
    if method == "common":
        return round(value, precision)
    factor = 10.0**precision
    scaled = value * factor
    return float(math.ceil(scaled) if method == "ceil" else math.floor(scaled)) / factor


@pass_context
def _sum(context: Context, values: Iterable[Any], attribute: Any = None, start: float = 0) -> float:
    items = _counted(context, values)
    if attribute is not None:
        items = [context.environment.getitem(value, attribute) for value in items]
    if not all(isinstance(value, int | float) for value in (*items, start)):
        raise TemplateFailed("only numbers can be summed")
    return sum(items, start)


@pass_context
def _string(context: Context, value: Any) -> str:
    return budget_of(context).text(value)


def _text_filter(method: Callable[..., str]) -> Callable[..., str]:
    @pass_context
    def apply(context: Context, value: Any, *args: Any) -> str:
        return method(budget_of(context).text(value), *args)

    return apply


@pass_context
def _list(context: Context, values: Iterable[Any]) -> list[Any]:
    return _counted(context, values)


def _counted(context: Context, values: Iterable[Any]) -> list[Any]:
    budget = budget_of(context)
    items: list[Any] = []
    for value in values:
        budget.step()
        items.append(value)
        if not len(items) % 1024:
            budget.build_items(len(items))  # on the way, lest it be too late at the end
    budget.build_items(len(items))
    return items


def _lazy(context: Context, values: Iterable[Any]) -> Iterator[Any]:
    """What a lazy filter gives, each item a step."""
    budget = budget_of(context)
    for value in values:
        budget.step()
        yield value


@pass_context
def _tojson(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is: no HTML escapes, and raw UTF-8 even where a template asks for ASCII."""
    del ensure_ascii
    if separators is not None and sum(map(len, separators)) > _MAX_SEPARATOR_CHARS:
        raise TemplateFailed("separators that long are not supported")
    if indent is not None and not 0 <= int(indent) <= _MAX_INDENT:
        raise TemplateFailed("an indent that wide is not supported")
    budget = budget_of(context)
    budget.walk(value)
    text = json.dumps(
        list(value) if isinstance(value, Iterator) else value,  # as `map` and `select` give
        ensure_ascii=False,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    budget.build(len(text))
    return text


@pass_context
def join(context: Context, values: Iterable[Any], d: str = "", attribute: Any = None) -> str:
    budget = budget_of(context)
    items = _counted(context, values)
    if attribute is not None:
        items = [context.environment.getitem(value, attribute) for value in items]
    return budget.join(budget.text(d), [budget.text(value) for value in items])


@pass_context
def _replace(context: Context, text: Any, old: Any, new: Any, count: int = -1) -> str:
    budget = budget_of(context)
    return budget.replace(budget.text(text), budget.text(old), budget.text(new), count)


@pass_context
def _indent(
    context: Context, text: Any, width: int = 4, first: bool = False, blank: bool = False
) -> str:
    if not 0 <= int(width) <= _MAX_INDENT:
        raise TemplateFailed("an indent that wide is not supported")
    margin = " " * int(width)
    budget = budget_of(context)
    lines = budget.text(text).split("\n")
    budget.build_items(len(lines))
    return budget.join(
        "\n",
        [
            margin + line if (i or first) and (line or blank) else line
            for i, line in enumerate(lines)
        ],
    )
