"""Jinja for chat templates that may come from anywhere: a GGUF is a download.

Jinja's sandbox keeps a template away from Python's internals. On top of it come bounds, so that a
template cannot hold up the server: steps (loop rounds, calls, outputs), time, the size of what
operators, filters and macros build, and only those filters, string methods and globals that chat
templates use. The date is fixed, so that the same conversation always gives the same prompt.

Not covered: memory is bounded only roughly, about a hundred times the largest prompt.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from prompts.budget import Budget, Limits, TemplateFailed, TemplateTooCostly

TEMPLATES = Path(__file__).parent / "templates"
LIMITS = Limits()

_MAX_SOURCE_CHARS = 1_000_000
_MAX_INDENT = 16
# The day that the Llama 3.1 template was written for; any fixed day would do.
_TODAY = datetime.date(2024, 7, 26)
_BUDGET = "the budget"  # not an identifier: no template can name or replace it

_FILTERS = frozenset(
    "abs count d default dictsort first float groupby int items last length map max min reject"
    " rejectattr reverse round select selectattr sort sum unique".split()
)
_STRING_METHODS = frozenset(
    "capitalize casefold count endswith find index isalnum isalpha isdecimal isdigit islower"
    " isnumeric isspace isupper join lower lstrip partition removeprefix removesuffix replace"
    " rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title"
    " upper".split()
)


class ChatTemplate:
    """A compiled template. Rendering shares nothing between calls, so threads may share it."""

    def __init__(self, source: str, limits: Limits = LIMITS) -> None:
        """Raises TemplateFailed."""
        if len(source) > _MAX_SOURCE_CHARS:
            raise TemplateFailed("it is too long")
        self.source = source
        self._limits = limits
        environment = _Environment(limits)
        try:
            self._template = environment.from_string(_Bounds().visit(environment.parse(source)))
        except jinja2.TemplateSyntaxError as exc:
            raise TemplateFailed(f"line {exc.lineno}: {exc.message}") from None
        except Exception as exc:
            raise TemplateFailed(_one_line(exc)) from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """Raises TemplateFailed, and nothing else, whatever the template does."""
        budget = Budget(self._limits)
        chunks: list[str] = []
        size = 0
        try:
            for chunk in self._template.generate({**variables, _BUDGET: budget}):
                chunks.append(chunk)
                size += len(chunk)
                if size > self._limits.max_size:
                    raise TemplateTooCostly("its output is too large")
                budget.step()
        except TemplateFailed:
            raise
        except Exception as exc:
            raise TemplateFailed(_one_line(exc)) from None
        return "".join(chunks)


def _one_line(exc: Exception) -> str:
    lines = str(exc).strip().splitlines()
    text = lines[0][:300] if lines else "no reason given"
    return text if isinstance(exc, jinja2.TemplateError) else f"{type(exc).__name__}: {text}"


class _Bounds(NodeTransformer):
    """Sends what Jinja compiles to bare Python (loops, `~`) through the environment."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = _through("counted", node.iter, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return _through("joined", *node.nodes, lineno=node.lineno)


def _through(method: str, *arguments: nodes.Node, lineno: int) -> nodes.Call:
    target = nodes.EnvironmentAttribute(method, lineno=lineno)
    return nodes.Call(target, [*arguments], [], None, None, lineno=lineno)


class _Generation(Extension):
    """`{% generation %}` marks text for training; it prints its body."""

    tags = {"generation"}  # noqa: RUF012 (declared by the base class)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, limits: Limits) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, "jinja2.ext.loopcontrols"],
            loader=jinja2.FileSystemLoader(TEMPLATES),
            finalize=_output,
        )
        self._max_size = limits.max_size
        self.concat = self._concat  # type: ignore[method-assign]
        self.filters = {name: self.filters[name] for name in _FILTERS}
        self.filters.update(_own_filters())
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        self.globals.update(raise_exception=_raise_exception, strftime_now=_TODAY.strftime)

    def _concat(self, texts: Iterable[str]) -> str:
        chunks = list(texts)
        if sum(map(len, chunks)) > self._max_size:
            raise TemplateTooCostly("it builds a text that is too large")
        return "".join(chunks)

    @pass_context
    def counted(self, context: Context, values: Iterable[Any]) -> Iterator[Any]:
        budget = _budget(context)
        for value in values:
            budget.step()
            yield value

    @pass_context
    def joined(self, context: Context, *values: Any) -> str:
        return _join(context, values)

    # The names of these parameters are Jinja's: a template's keywords must not collide with them.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(__context)
        budget.step()
        budget.check_time()
        if isinstance(__obj, LoopContext):  # `loop(...)` goes one level deeper
            args = (__self.counted(__context, args[0]), *args[1:])
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            return _string_method(budget, owner, __obj.__name__, args, kwargs)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = _budget(context)
        if operator == "*":
            budget.product(left, right)
        elif operator == "**":
            budget.power(left, right)
        elif operator == "%" and isinstance(left, str):
            budget.percent(left, right)
        elif operator == "+" and isinstance(left, Sequence) and isinstance(right, Sequence):
            budget.build(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _STRING_METHODS
        if isinstance(obj, list) and attr in ("append", "pop"):
            return True  # the lists of a rendering are its own
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        inner = super().wrap_str_format(value)
        if inner is None:
            return None
        text: str = value.__self__
        fields = [(spec, how) for _, name, spec, how in Formatter().parse(text) if name is not None]
        if any(spec or how for spec, how in fields):
            raise TemplateFailed("str.format with a format specification is not supported")

        def bounded(*args: Any, **kwargs: Any) -> str:
            shown = sum(len(str(value)) for value in (*args, *kwargs.values()))
            if len(text) + len(fields) * shown > self._max_size:
                raise TemplateTooCostly("it builds a text that is too large")
            return inner(*args, **kwargs)

        return bounded


def _budget(context: Context) -> Budget:
    budget: Budget = context[_BUDGET]
    return budget


def _string_method(
    budget: Budget, text: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    for name in ("_loop_vars", "_block_vars"):  # Jinja's own additions to every call
        kwargs.pop(name, None)
    if method == "join":
        return budget.join(text, [budget.text(item) for item in args[0]])
    if method == "replace":
        return budget.replace(text, *args, **kwargs)
    budget.build(len(text))
    return getattr(text, method)(*args, **kwargs)


def _own_filters() -> dict[str, Callable[..., Any]]:
    return {
        "from_json": json.loads,
        "indent": _indent,
        "join": _join,
        "list": _list,
        "replace": _replace,
        "safe": _string,  # nothing is escaped here
        "string": _string,
        "tojson": _tojson,
        "capitalize": _text_filter(str.capitalize),
        "lower": _text_filter(str.lower),
        "trim": _text_filter(str.strip),
        "upper": _text_filter(str.upper),
    }


@pass_context
def _output(context: Context, value: Any) -> str:
    """What `{{ value }}` prints."""
    return _budget(context).text(value)


@pass_context
def _string(context: Context, value: Any) -> str:
    return _budget(context).text(value)


def _text_filter(method: Callable[..., str]) -> Callable[..., str]:
    @pass_context
    def apply(context: Context, value: Any, *args: Any) -> str:
        return method(_budget(context).text(value), *args)

    return apply


@pass_context
def _list(context: Context, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, str):
        _budget(context).build(len(values))
    return list(values)


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
    if indent is not None and not 0 <= int(indent) <= _MAX_INDENT:
        raise TemplateFailed("an indent that wide is not supported")
    budget = _budget(context)
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
def _join(context: Context, values: Iterable[Any], d: str = "", attribute: Any = None) -> str:
    budget = _budget(context)
    if attribute is not None:
        values = [context.environment.getitem(value, attribute) for value in values]
    return budget.join(str(d), [budget.text(value) for value in values])


@pass_context
def _replace(context: Context, text: Any, old: Any, new: Any, count: int = -1) -> str:
    budget = _budget(context)
    return budget.replace(budget.text(text), str(old), str(new), count)


@pass_context
def _indent(
    context: Context, text: Any, width: int = 4, first: bool = False, blank: bool = False
) -> str:
    if not 0 <= int(width) <= _MAX_INDENT:
        raise TemplateFailed("an indent that wide is not supported")
    margin = " " * int(width)
    lines = str(text).split("\n")
    return _budget(context).join(
        "\n",
        [
            margin + line if (i or first) and (line or blank) else line
            for i, line in enumerate(lines)
        ],
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(str(message))
