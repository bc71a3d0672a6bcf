"""Tools, tool choice and response format -> a compiled constraint, cached. Outlines' only door.

Outlines' llguidance back end compiles; what is expensive, reading the vocabulary, is done once per
model. A compiled constraint is shared; each sequence gets a copy of its matcher.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import llguidance
import numpy as np
from outlines.backends.llguidance import LLGuidanceBackend

from prompts.payloads import JSON, Tags
from prompts.tool_format import ToolFormat
from server.engine.vocabulary import Vocabulary
from server.errors import InvalidRequest
from server.grammar import Offer, Words, calls_grammar, json_grammar, words_grammar
from server.guide import Guide, Matcher, Rules
from server.output import OutputParser
from server.payloads.choice import Parameters, is_exact, parameters_of
from server.schema.keywords import Refusal
from server.schema.prepare import Prepared, prepare
from server.surface import Surface, surfaces
from server.values import Check

JsonObject = dict[str, Any]
T = TypeVar("T")
Mode = Literal["none", "auto", "required"]

CACHED = 256  # compiled constraints that are kept, and prepared schemas
CACHED_SIZE = 8 << 20  # characters of what they were made from
STACK_BYTES = 256 << 20  # for compiling: the back end recurses as deep as a schema refers
LIMITS = {
    # An object of many optional members makes long rows.
    "max_items_in_row": 20_000,
    "step_max_items": 400_000,
    "initial_lexer_fuel": 4_000_000,
}


@dataclass(frozen=True)
class Callee:
    """A tool that may be called; `path` is where the request has its schema."""

    name: str
    parameters: JsonObject
    path: str


@dataclass(frozen=True)
class Plan:
    """What an answer may be. `answer`: the schema that a text must satisfy, if any."""

    row: ToolFormat
    mode: Mode
    tools: tuple[Callee, ...] = ()
    parallel: bool = True
    answer: JsonObject | None = None

    def key(self) -> str:
        tools = [(tool.name, tool.parameters) for tool in self.tools]
        row = (self.row.name, self.row.section, self.row.text)
        return json.dumps([row, self.mode, tools, self.parallel, self.answer])


class Constraint:
    """A compiled plan. `guide` for the engine, `parser` for the answer, both per sequence."""

    def __init__(
        self, rules: Rules, ways: tuple[Surface, ...], ends: tuple[str, ...], *, calls_only: bool
    ) -> None:
        self._rules = rules
        self._ways = ways
        self._ends = ends
        self._calls_only = calls_only
        # The first of each compiles its patterns, with many tools for a long time: off the event
        # loop here. `regex` keeps them.
        self.guide()
        self.parser(new_id=str, stops=())

    def guide(self) -> Guide:
        return Guide(self._rules)

    def parser(self, *, new_id: Callable[[], str], stops: Iterable[str]) -> OutputParser:
        return OutputParser(
            self._ways,
            names=[name for name in self._rules.checks if name],
            new_id=new_id,
            stops=(*stops, *self._ends),
            token_markers=self._rules.vocabulary.special_ids,
            calls_only=self._calls_only,
            parameters=self._rules.parameters,
            text_opening=self._rules.text_opening,
        )


class ConstraintCompiler:
    """Compiles plans for one model. `can_retry`: its sequences can be cut and generated anew."""

    def __init__(self, vocabulary: Vocabulary, *, can_retry: bool) -> None:
        self._vocabulary = vocabulary
        self._can_retry = can_retry
        self._backend = _Backend(vocabulary)
        self._constraints: _Cache[Constraint] = _Cache()
        self._schemas: _Cache[Prepared] = _Cache()
        self._pool = _deep_pool()
        self._digits = np.array(
            [len(piece) - len(piece.lstrip(b"0123456789")) for piece in vocabulary.pieces], np.uint8
        )

    async def compile(self, plan: Plan) -> Constraint:
        """Off the event loop. Raises InvalidRequest that names tool, pointer and keyword."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._cached, plan)

    def compile_now(self, plan: Plan) -> Constraint:
        return self._pool.submit(self._cached, plan).result()

    def _cached(self, plan: Plan) -> Constraint:
        key = plan.key()
        constraint = self._constraints.get(key)
        if constraint is None:
            constraint = self._compile(plan)
            self._constraints.put(key, constraint)
        return constraint

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _compile(self, plan: Plan) -> Constraint:
        tools = plan.tools if plan.mode != "none" else ()
        try:
            return self._constrained(plan, tools)
        except ValueError:
            # Something is too much for the back end: what it is, its message does not say.
            for tool in tools:
                self._loosen(_Part.of(tool))
            if plan.answer is not None:
                self._loosen(_Part.of_answer(plan.answer))
        try:
            return self._constrained(plan, tools)
        except ValueError as exc:
            message = f"the tools cannot be enforced together: {exc}"
            raise InvalidRequest(message, param="tools") from None

    def _constrained(self, plan: Plan, tools: tuple[Callee, ...]) -> Constraint:
        """Raises ValueError with what the back end has to say, InvalidRequest for a bad schema."""
        split = self._vocabulary.split_special
        ends = tuple(end for end in plan.row.end if split(end)[0] not in self._vocabulary.end)
        parts = {tool.name: self._prepared(_Part.of(tool)) for tool in tools}
        offers = [Offer(name, part.grammar) for name, part in parts.items()]
        answer = None
        if plan.answer is not None:
            answer = parts[""] = self._prepared(_Part.of_answer(plan.answer))
        words = None
        if plan.mode != "required" and (answer or plan.row.text[0]):
            words = Words(plan.row.text, answer.grammar if answer else None)
        ways = surfaces(plan.row) if offers else ()
        if plan.mode == "required" or answer:
            ways = ways[:1]
        matcher = None
        if offers:
            text = calls_grammar(
                ways,
                offers,
                parallel=plan.parallel and plan.row.max_calls != 1,
                ends=ends,
                split_special=split,
                or_words=words,
            )
            matcher = self._matcher(text)
        elif words:
            matcher = self._matcher(words_grammar(words, split))
        sources = {tool.name: _Part.of(tool) for tool in tools}
        checks = {
            name: Check(part.checker, needed=self._needed(sources.get(name), part, ways))
            for name, part in parts.items()
        }
        free = plan.mode != "required" and not words
        parameters = {
            name: parameters_of(part.grammar, part.checker)
            for name, part in parts.items()
            if any(isinstance(way.args, Tags) for way in ways)
        }
        rules = self._rules(plan.row, matcher, ways, checks, parameters, free=free)
        stops = [end for end in (*ends, plan.row.text[1]) if end]
        return Constraint(rules, ways, tuple(stops), calls_only=plan.mode == "required")

    def _needed(self, part: _Part | None, prepared: Prepared, ways: tuple[Surface, ...]) -> bool:
        """Whether a finished value may turn out wrong and be taken back. Raises InvalidRequest."""
        notations = {way.args for way in ways if part} - {JSON}
        exact = all(is_exact(args, prepared.grammar) for args in notations)
        if part and not exact and not self._can_retry:
            why = "this model, which cannot take back what it wrote, has another notation than JSON"
            raise InvalidRequest(f"{part.title} cannot be enforced: {why}", param=part.path)
        return (prepared.says_less or not exact) and self._can_retry

    def _rules(
        self,
        row: ToolFormat,
        matcher: Matcher | None,
        ways: tuple[Surface, ...],
        checks: dict[str, Check],
        parameters: Mapping[str, Parameters],
        *,
        free: bool,
    ) -> Rules:
        vocabulary = self._vocabulary
        tokens = vocabulary.special_ids
        by_token = [way for way in ways if way.opens_with(tokens)]
        by_text = [way for way in ways if not way.opens_with(tokens)]
        triggers = {
            token
            for way in by_token
            for token in vocabulary.split_special(way.marker)[:1]
            if isinstance(token, int)
        }
        joints = {
            token
            for way in by_text
            if not way.literal
            for token in vocabulary.split_special(way.prefix)
            if isinstance(token, int)
        }
        names = [name for name in checks if name]
        way = surfaces(row)[0]
        allowed = np.ones(len(vocabulary), np.bool_)
        allowed[list(vocabulary.control)] = False
        parts = vocabulary.split_special(way.open + way.call + way.close + "".join(row.reasoning))
        allowed[[part for part in parts if isinstance(part, int)]] = False
        allowed[list(vocabulary.end | triggers)] = True

        def parser() -> OutputParser:
            return OutputParser(
                ways,
                names=names,
                new_id=lambda: "",
                token_markers=tokens,
                parameters=parameters,
                text_opening=row.text[0],
            )

        return Rules(
            vocabulary=vocabulary,
            matcher=matcher,
            free=allowed if free else None,
            triggers=frozenset(triggers) if free else frozenset(),
            joints=frozenset(joints) if free else frozenset(),
            openings=tuple(way.opening(names) for way in by_text) if free and names else (),
            digits=self._digits,
            parser=parser,
            parameters=parameters,
            checks=checks,
            text_opening=row.text[0],
        )

    def _prepared(self, part: _Part) -> Prepared:
        """Raises InvalidRequest that names tool, pointer and keyword."""
        key = part.key()
        prepared = self._schemas.get(key)
        if prepared is None:
            try:
                prepared = prepare(part.schema, arguments=part.arguments)
                self._check_retry(prepared)
            except Refusal as exc:
                raise part.refused(exc) from None
            self._schemas.put(key, prepared)
        return prepared

    def _loosen(self, part: _Part) -> None:
        """Replace what is prepared of a part, if the back end does not take it as it is."""
        prepared = self._prepared(part)
        if self._error(json_grammar(prepared.grammar)) is None:
            return
        try:
            prepared = prepared.loosened(lambda schema: self._error(json_grammar(schema)))
            self._check_retry(prepared)
        except Refusal as exc:
            raise part.refused(exc) from None
        self._schemas.put(part.key(), prepared)

    def _check_retry(self, prepared: Prepared) -> None:
        if prepared.afterwards and not self._can_retry:
            raise Refusal(*prepared.afterwards[0], "this model cannot take back what it wrote")

    def _error(self, grammar: str) -> str | None:
        try:
            self._matcher(grammar)
        except ValueError as exc:
            return str(exc)
        return None

    def _matcher(self, grammar: str) -> Matcher:
        """Raises ValueError with what the back end has to say."""
        processor = self._backend.get_cfg_logits_processor(grammar)
        limits = llguidance.LLParserLimits(**LIMITS)
        matcher = llguidance.LLMatcher(
            processor.llg_tokenizer, processor.grammar, log_level=0, limits=limits
        )
        if matcher.is_error():
            raise ValueError(_summary(matcher.get_error()))
        if not any(matcher.deep_copy().compute_bitmask()) or _is_dead(matcher.deep_copy()):
            raise ValueError("Unsatisfiable schema: no value satisfies it")
        return matcher  # type: ignore[no-any-return]


def _deep_pool() -> ThreadPoolExecutor:
    """One thread with a stack of its own size, which the system only backs as far as it is used."""
    before = threading.stack_size(STACK_BYTES)
    try:
        pool = ThreadPoolExecutor(1, thread_name_prefix="compile")
        pool.submit(lambda: None).result()
    finally:
        threading.stack_size(before)
    return pool


class _Cache(Generic[T]):
    """The values used last, by the text that they were made from. For one thread."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, T] = OrderedDict()
        self._size = 0  # of all keys: what the values take grows with it

    def get(self, key: str) -> T | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: str, value: T) -> None:
        if key not in self._values:
            self._size += len(key)
        self._values[key] = value
        while len(self._values) > 1 and (len(self._values) > CACHED or self._size > CACHED_SIZE):
            oldest, _ = self._values.popitem(last=False)
            self._size -= len(oldest)


@dataclass(frozen=True)
class _Part:
    """A schema of a request, and how messages speak of it."""

    schema: JsonObject
    arguments: bool
    title: str
    path: str

    @classmethod
    def of(cls, tool: Callee) -> _Part:
        return cls(tool.parameters, True, f"the parameters of tool {tool.name!r}", tool.path)

    @classmethod
    def of_answer(cls, schema: JsonObject) -> _Part:
        return cls(schema, False, "response_format", "response_format.json_schema.schema")

    def key(self) -> str:
        return json.dumps([self.arguments, self.schema])

    def refused(self, why: Refusal) -> InvalidRequest:
        return InvalidRequest(f"{self.title} cannot be enforced: {why}", param=self.path)


def _is_dead(matcher: Any) -> bool:
    matcher.compute_bitmask()
    return bool(matcher.is_stopped() and not matcher.is_accepting())


def _summary(error: str) -> str:
    """The back end's message without the grammar that it quotes."""
    text = re.split(r"\n\s*\d+ \| ", error)[0]
    text = re.sub(r"^at \d+\(\d+\): ", "", text).replace("failed to compile JSON schema: ", "")
    return re.sub(r"\s+", " ", text)[:300]


class _Backend(LLGuidanceBackend):  # type: ignore[misc]
    """Outlines' back end over our own vocabulary of bytes.

    Outlines makes its tokenizer from an Outlines model, which would hold a second copy of the
    vocabulary keyed by decoded text, where tokens that are no valid UTF-8 fall together.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(_Named(vocabulary))

    def _create_llg_tokenizer(self, model: _Named) -> Any:
        wrapper = llguidance.TokenizerWrapper(_Tokenizer(model.vocabulary))
        return llguidance.LLTokenizer(wrapper, eos_token=sorted(model.vocabulary.end))


@dataclass(frozen=True)
class _Named:
    vocabulary: Vocabulary
    tensor_library_name: str = "numpy"


class _Tokenizer:
    """A vocabulary in the shape that llguidance reads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos
        self.bos_token_id = vocabulary.bos
        self.tokens = vocabulary.pieces
        self.special_token_ids = sorted(vocabulary.special)
        self._encode = vocabulary.encode_text

    def __call__(self, text: bytes) -> list[int]:
        return self._encode(text)
