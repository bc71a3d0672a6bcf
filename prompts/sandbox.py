"""Jinja for chat templates that may come from anywhere: a GGUF is a download.

Jinja's sandbox keeps a template away from Python's internals. On top of it come bounds, so that a
template cannot hold up the server: steps (loop rounds, calls, outputs), time, the size of all that
is built, and only those filters, methods and globals that chat templates use. What Jinja compiles
to bare Python is sent through the budget (`_Bounds`). The date is fixed, so that the same
conversation always gives the same prompt.

Memory is bounded by what all texts and lists of a rendering have together (`Limits`), roughly: a
character takes one to four bytes.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from prompts.budget import Budget, Limits, TemplateFailed, TemplateTooCostly
from prompts.template_filters import BUDGET, bounded_filters, bounded_tests, budget_of, join, output

TEMPLATES = Path(__file__).parent / "templates"
LIMITS = Limits()

_MAX_SOURCE_CHARS = 250_000
_MAX_DATE_FORMAT_CHARS = 200
# The day that the Llama 3.1 template was written for; any fixed day would do.
_TODAY = datetime.date(2024, 7, 26)

_STRING_METHODS = frozenset(
    "capitalize casefold count endswith find index isalnum isalpha isdecimal isdigit islower"
    " isnumeric isspace isupper join lower lstrip partition removeprefix removesuffix replace"
    " rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title"
    " upper".split()
)

_LIST_METHODS = frozenset({"append", "pop", "index", "count"})  # a rendering's lists are its own
_DICT_METHODS = frozenset({"get", "items", "keys", "values"})


class ChatTemplate:
    """A compiled template. Rendering shares nothing between calls, so threads may share it."""

    def __init__(self, source: str, limits: Limits = LIMITS) -> None:
        """Raises TemplateFailed."""
        if len(source) > _MAX_SOURCE_CHARS:
            raise TemplateFailed("it is too long")
        self.source = source
        self._limits = limits
        self._environment = _Environment()
        try:
            tree = _Bounds().visit(self._environment.parse(source))
            self._template = self._environment.from_string(tree)
        except jinja2.TemplateSyntaxError as exc:
            raise TemplateFailed(f"line {exc.lineno}: {exc.message}") from None
        except Exception as exc:
            raise TemplateFailed(_one_line(exc)) from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """Raises TemplateFailed, and nothing else, whatever the template does."""
        budget = self._environment.rendering.budget = Budget(self._limits)
        chunks: list[str] = []
        size = 0
        try:
            for chunk in self._template.generate({**variables, BUDGET: budget}):
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
    """Sends what Jinja compiles to bare Python through the environment: loops, `~`, lists,
    slices, comparisons.
    """

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = _through("counted", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return _through("joined", *node.nodes)

    def visit_List(self, node: nodes.List) -> nodes.Expr:
        self.generic_visit(node)
        return _through("built", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        self.generic_visit(node)
        return _through("built", node) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:
        self.generic_visit(node)
        for pair in node.items:
            if not isinstance(pair.key, nodes.Const):
                pair.key = _through("compared", pair.key)  # it is hashed
        return _through("built", node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        parts = (node.arg.start, node.arg.stop, node.arg.step)
        return _through("sliced", node.node, *(part or nodes.Const(None) for part in parts))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        constant = isinstance(node.expr, nodes.Const)
        constant = constant or all(isinstance(one.expr, nodes.Const) for one in node.ops)
        membership = any(one.op in ("in", "notin") for one in node.ops)
        self.generic_visit(node)
        if constant and not membership:
            return node  # next to nothing, whatever is on the other side
        node.expr = _through("compared", node.expr)
        for one in node.ops:
            name = "searched" if one.op in ("in", "notin") else "compared"
            one.expr = _through(name, one.expr)
        return node


def _through(method: str, *arguments: nodes.Node) -> nodes.Call:
    lineno = arguments[0].lineno
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

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, "jinja2.ext.loopcontrols"],
            loader=jinja2.FileSystemLoader(TEMPLATES),
            finalize=output,
        )
        self.rendering = threading.local()  # its `budget`, where no context is at hand
        self.concat = self._concat  # type: ignore[method-assign]
        self.filters = bounded_filters(self.filters)
        self.tests = bounded_tests(self.tests)
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        self.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)

    def _concat(self, texts: Iterable[str]) -> str:
        chunks = list(texts)
        self.rendering.budget.build(sum(map(len, chunks)))
        return "".join(chunks)

    @pass_context
    def counted(self, context: Context, values: Iterable[Any]) -> Iterator[Any]:
        budget = budget_of(context)
        for value in values:
            budget.step()
            yield value

    @pass_context
    def joined(self, context: Context, *values: Any) -> str:
        return join(context, values)

    @pass_context
    def built(self, context: Context, value: Any) -> Any:
        return value  # `call` counts it, as all that is made

    @pass_context
    def sliced(self, context: Context, value: Any, *parts: int | None) -> Any:
        budget_of(context).slice(value, slice(*parts))
        return value[slice(*parts)]

    @pass_context
    def compared(self, context: Context, value: Any) -> Any:
        budget_of(context).walk(value)
        return value

    @pass_context
    def searched(self, context: Context, value: Any) -> Any:
        if not isinstance(value, dict):
            budget_of(context).walk(value)
        return value

    # The names of these parameters are Jinja's: a template's keywords must not collide with them.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = budget_of(__context)
        budget.step()
        budget.check_time()
        if isinstance(__obj, LoopContext):  # `loop(...)` goes one level deeper
            args = (__self.counted(__context, args[0]), *args[1:])
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            return _string_method(budget, owner, __obj.__name__, args, kwargs)
        if owner is not __self and not isinstance(__obj, Macro | LoopContext):
            for value in (*args, *kwargs.values()):
                budget.walk(value)  # it may be printed, compared or hashed
        result = super().call(__context, __obj, *args, **kwargs)
        if owner is not __self or __obj.__name__ == "built":
            budget.made(result)
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = budget_of(context)
        if operator == "*":
            budget.product(left, right)
        elif operator == "**":
            budget.power(left, right)
        elif operator == "%" and isinstance(left, str):
            budget.percent(left, right)
        elif operator == "+" and isinstance(left, Sequence) and isinstance(right, Sequence):
            size = len(left) + len(right)
            (budget.build if isinstance(left, str) else budget.build_items)(size)
        return super().call_binop(context, operator, left, right)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, tuple):
            raise TemplateFailed("a tuple is no key")  # it would be hashed
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _STRING_METHODS
        if isinstance(obj, list):
            return attr in _LIST_METHODS
        if isinstance(obj, dict):
            return attr in _DICT_METHODS
        if isinstance(obj, int | float | bytes | tuple | range):
            return False
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
            budget: Budget = self.rendering.budget
            shown = sum(len(budget.text(value)) for value in (*args, *kwargs.values()))
            budget.build(len(text) + len(fields) * shown)
            return inner(*args, **kwargs)

        return bounded


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
    result = getattr(text, method)(*args, **kwargs)
    budget.made(result)
    return result


def _strftime_now(form: str) -> str:
    if len(form) > _MAX_DATE_FORMAT_CHARS:
        raise TemplateFailed("a date format that long is not supported")
    return _TODAY.strftime(form)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(str(message))
