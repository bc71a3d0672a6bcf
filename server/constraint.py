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
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import llguidance
import numpy as np
from outlines.backends.llguidance import LLGuidanceBackend

from prompts.formats import ToolFormat
from server import schema as schemas
from server.engine.vocabulary import Vocabulary
from server.errors import InvalidRequest
from server.grammar import Offer, calls_grammar, json_grammar
from server.guide import Check, Guide, Matcher, Rules
from server.output import OutputParser
from server.schema import Checker, Prepared, Refusal
from server.surface import Surface, surfaces

JsonObject = dict[str, Any]
Mode = Literal["none", "auto", "required"]

CACHED = 256  # compiled constraints that are kept


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
        return json.dumps([self.row.name, self.mode, tools, self.parallel, self.answer])


class Constraint:
    """A compiled plan. `guide` for the engine, `parser` for the answer, both per sequence."""

    def __init__(
        self, rules: Rules, ways: tuple[Surface, ...], ends: tuple[str, ...], *, calls_only: bool
    ) -> None:
        self._rules = rules
        self._ways = ways
        self._ends = ends
        self._calls_only = calls_only

    def guide(self) -> Guide:
        return Guide(self._rules)

    def parser(self, *, new_id: Callable[[], str], stops: Iterable[str]) -> OutputParser:
        return OutputParser(
            self._ways,
            new_id=new_id,
            stops=(*stops, *self._ends),
            token_markers=self._rules.vocabulary.special_ids,
            calls_only=self._calls_only,
        )


class ConstraintCompiler:
    """Compiles plans for one model. `can_retry`: its sequences can be cut and generated anew."""

    def __init__(self, vocabulary: Vocabulary, *, can_retry: bool) -> None:
        self._vocabulary = vocabulary
        self._can_retry = can_retry
        self._backend = _Backend(vocabulary)
        self._cache: OrderedDict[str, Constraint] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="compile")
        self._digits = np.array([piece[:1].isdigit() for piece in vocabulary.pieces])

    async def compile(self, plan: Plan) -> Constraint:
        """Off the event loop. Raises InvalidRequest that names tool, pointer and keyword."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self.compile_now, plan)

    def compile_now(self, plan: Plan) -> Constraint:
        key = plan.key()
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        constraint = self._compile(plan)
        with self._lock:
            self._cache[key] = constraint
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return constraint

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _compile(self, plan: Plan) -> Constraint:
        split = self._vocabulary.split_special
        ends = tuple(end for end in plan.row.end if isinstance(split(end)[0], str))
        tools = plan.tools if plan.mode != "none" else ()
        offers = [self._offer(tool) for tool in tools]
        answer = self._answer(plan.answer) if plan.answer is not None else None
        ways = surfaces(plan.row) if offers else ()
        if plan.mode == "required" or answer:
            ways = ways[:1]
        checks = {offer.name: check for offer, check in offers}
        matcher = None
        if offers:
            text = calls_grammar(
                ways,
                [offer for offer, _ in offers],
                parallel=plan.parallel and plan.row.max_calls != 1,
                ends=ends,
                split_special=split,
                or_json=answer[0].grammar if answer else None,
            )
            matcher = self._matcher(text)
        elif answer:
            matcher = self._matcher(json_grammar(answer[0].grammar))
        if answer:
            checks[""] = answer[1]
        free = plan.mode != "required" and not answer
        rules = self._rules(plan.row, matcher, ways, checks, free=free)
        return Constraint(rules, ways, ends, calls_only=plan.mode == "required")

    def _rules(
        self,
        row: ToolFormat,
        matcher: Matcher | None,
        ways: tuple[Surface, ...],
        checks: dict[str, Check],
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
        names = [name for name in checks if name]
        allowed = np.ones(len(vocabulary), np.bool_)
        allowed[list(vocabulary.control)] = False
        allowed[list(_marker_tokens(surfaces(row)[0], vocabulary))] = False
        allowed[list(vocabulary.end | triggers)] = True

        def parser() -> OutputParser:
            return OutputParser(ways, new_id=lambda: "", token_markers=tokens)

        return Rules(
            vocabulary=vocabulary,
            matcher=matcher,
            free=allowed if free else None,
            triggers=frozenset(triggers) if free else frozenset(),
            openings=tuple(way.opening(names) for way in by_text) if free and names else (),
            digits=self._digits,
            parser=parser,
            checks=checks,
        )

    def _offer(self, tool: Callee) -> tuple[Offer, Check]:
        try:
            prepared = self._fitted(schemas.prepare(tool.parameters, arguments=True))
        except Refusal as exc:
            message = f"the parameters of tool {tool.name!r} cannot be enforced: {exc}"
            raise InvalidRequest(message, param=tool.path) from None
        check = Check(Checker(tool.parameters), prepared.checked)
        return Offer(tool.name, prepared.grammar), check

    def _answer(self, schema: JsonObject) -> tuple[Prepared, Check]:
        path = "response_format.json_schema.schema"
        try:
            prepared = self._fitted(schemas.prepare(schema, arguments=False))
        except Refusal as exc:
            raise InvalidRequest(f"response_format cannot be enforced: {exc}", param=path) from None
        return prepared, Check(Checker(schema), prepared.checked)

    def _fitted(self, prepared: Prepared) -> Prepared:
        """Loosen what the back end turns out not to take; raise Refusal for what is left."""
        for complaint, loosen in schemas.LOOSER:
            error = self._error(json_grammar(prepared.grammar))
            if error is None:
                break
            if complaint in error:
                prepared = replace(prepared, grammar=loosen(prepared.grammar), checked=True)
        error = self._error(json_grammar(prepared.grammar))
        if error is not None:
            raise Refusal("", *_blame(error))
        if prepared.checked and not self._can_retry:
            raise Refusal("", "a keyword", "this model cannot take back what it wrote")
        return prepared

    def _error(self, grammar: str) -> str | None:
        try:
            self._matcher(grammar)
        except ValueError as exc:
            return str(exc)
        return None

    def _matcher(self, grammar: str) -> Matcher:
        """Raises ValueError with what the back end has to say."""
        processor = self._backend.get_cfg_logits_processor(grammar)
        matcher = llguidance.LLMatcher(processor.llg_tokenizer, processor.grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(_summary(matcher.get_error()))
        if not any(matcher.deep_copy().compute_bitmask()) or _is_dead(matcher.deep_copy()):
            raise ValueError("Unsatisfiable schema: no value satisfies it")
        return matcher  # type: ignore[no-any-return]


def _marker_tokens(way: Surface, vocabulary: Vocabulary) -> set[int]:
    """The special tokens of a surface: no text of an answer has them."""
    parts = vocabulary.split_special(way.open + way.call + way.close)
    return {part for part in parts if isinstance(part, int)}


def _is_dead(matcher: Any) -> bool:
    matcher.compute_bitmask()
    return bool(matcher.is_stopped() and not matcher.is_accepting())


def _summary(error: str) -> str:
    """The back end's message without the grammar that it quotes."""
    text = re.split(r"\n\s*\d+ \| ", error)[0]
    text = re.sub(r"^at \d+\(\d+\): ", "", text).replace("failed to compile JSON schema: ", "")
    return re.sub(r"\s+", " ", text)[:300]


def _blame(error: str) -> tuple[str, str]:
    """Keyword and reason of a message."""
    found = re.search(r'Unimplemented keys: \["([^"]+)"', error)
    if found:
        return found[1], "not supported"
    for keyword in ("pattern", "oneOf", "$ref", "format", "enum", "multipleOf"):
        if keyword in error:
            return keyword, error
    if "regex" in error:
        return "pattern", error
    if "Resource" in error or "Pointer" in error:
        return "$ref", error
    return "schema", error


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
