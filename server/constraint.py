"""Tools, tool choice and response format -> a compiled constraint, cached.

A compiled constraint is shared; each sequence gets a copy of its matcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from prompts.payloads import JSON, Tags
from prompts.tool_format import ToolFormat
from server.arguments import View
from server.call_bias import CallBias, Openers
from server.compiling import Cache, Lanes
from server.engine.vocabulary import Vocabulary
from server.errors import InvalidRequest
from server.grammar import (
    Offer,
    Words,
    calls_grammar,
    input_grammar,
    json_grammar,
    lark_grammar,
    words_grammar,
)
from server.guide import Guide
from server.guided import Matcher, Rules, allowed_next
from server.inputs import InputChecker, views_of
from server.lark import BadGrammar, check_lark, inside_string
from server.lookup import Lookup
from server.outlines_backend import OutlinesBackend
from server.output import OutputParser
from server.payloads.choice import Parameters, is_exact, parameters_of
from server.plan import Part, Plan
from server.schema import patterns
from server.schema.keywords import Refusal
from server.schema.prepare import Prepared, prepare
from server.surface import Surface, surfaces
from server.values import Check, Checker

NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Ready:
    """A schema made ready. `lark` is the grammar of the escaped input of a custom tool.

    `checker` checks everything; `less`: the grammar lets something through that it does not.
    """

    prepared: Prepared
    checker: Checker
    lark: str | None = None
    less: bool = False

    def offer(self, name: str) -> Offer:
        return Offer(name, self.prepared.grammar, self.lark)


class Constraint:
    """A compiled plan. `guide` for the engine, `parser` for the answer, both per sequence."""

    def __init__(
        self,
        rules: Rules,
        ways: tuple[Surface, ...],
        ends: tuple[str, ...],
        views: Mapping[str, Callable[[], View]],
        *,
        calls_only: bool,
    ) -> None:
        self._rules = rules
        self._ways = ways
        self._ends = ends
        self._views = views
        self._calls_only = calls_only
        # The first of each compiles its patterns, with many tools for a long time: off the event
        # loop here. `regex` keeps them.
        self.guide()
        self.parser(new_id=str, stops=())

    def guide(
        self, lookup: Lookup | None = None, bias: CallBias | None = None, more_by: float = 0.0
    ) -> Guide:
        return Guide(self._rules, lookup, bias, more_by)

    @property
    def chooses(self) -> bool:
        """Whether the first token of an answer decides between a call and free text."""
        return len(self._rules.openers) > 0

    def bias(self, by: float, fit: float = 0.0) -> CallBias:
        """A bias of calls against free text, if this `chooses`."""
        return CallBias(self._rules.openers, by, fit)

    def parser(self, *, new_id: Callable[[], str], stops: Iterable[str]) -> OutputParser:
        return OutputParser(
            self._ways,
            names=[name for name in self._rules.checks if name],
            new_id=new_id,
            stops=(*stops, *self._ends),
            token_markers=self._rules.vocabulary.special_ids,
            calls_only=self._calls_only,
            views=self._views,
            parameters=self._rules.parameters,
            text_opening=self._rules.text_opening,
        )


class ConstraintCompiler:
    """Compiles plans for one model. `can_retry`: its sequences can be cut and generated anew."""

    def __init__(self, vocabulary: Vocabulary, *, can_retry: bool) -> None:
        self._vocabulary = vocabulary
        self._can_retry = can_retry
        self._backend = OutlinesBackend(vocabulary)
        self._openers = Openers(vocabulary)
        self._constraints: Cache[Constraint] = Cache()
        self._schemas: Cache[_Ready] = Cache()
        self._lanes = Lanes()
        self._digits = np.array(
            [len(piece) - len(piece.lstrip(b"0123456789")) for piece in vocabulary.pieces], np.uint8
        )

    async def compile(self, plan: Plan) -> Constraint:
        """Off the event loop. Raises InvalidRequest that names tool, pointer and keyword."""
        key = await asyncio.to_thread(plan.key)
        known = self._constraints.get(key)
        if known is not None:
            return known
        return await asyncio.wrap_future(self._submit(plan, key))

    def compile_now(self, plan: Plan) -> Constraint:
        return self._submit(plan, plan.key()).result()

    def _submit(self, plan: Plan, key: str) -> Future[Constraint]:
        return self._lanes.submit(partial(self._cached, plan), key)

    def _cached(self, plan: Plan, key: str) -> Constraint:
        constraint = self._constraints.get(key)
        if constraint is None:
            constraint = self._compile(plan)
            self._constraints.put(key, constraint)
        return constraint

    def close(self) -> None:
        self._lanes.close()

    def _compile(self, plan: Plan) -> Constraint:
        try:
            return self._constrained(plan)
        except ValueError:
            # Something is too much for the back end: what it is, its message does not say.
            for part in plan.parts.values():
                self._loosen(part)
        try:
            return self._constrained(plan)
        except ValueError as exc:
            message = f"the tools cannot be enforced together: {exc}"
            raise InvalidRequest(message, param="tools") from None

    def _constrained(self, plan: Plan) -> Constraint:
        """Raises ValueError with what the back end has to say, InvalidRequest for a bad schema."""
        split = self._vocabulary.split_special
        ends = tuple(end for end in plan.row.end if split(end)[0] not in self._vocabulary.end)
        ready = {name: self._ready(part) for name, part in plan.parts.items()}
        offers = [part.offer(name) for name, part in ready.items() if name]
        answer = ready[""].prepared.grammar if "" in ready else None
        words = None
        if plan.mode != "required" and (answer or plan.row.text[0]):
            words = Words(plan.row.text, answer)
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
            matcher = self._backend.matcher(text)
        elif words:
            matcher = self._backend.matcher(words_grammar(words, split))
        checks = {
            name: Check(part.checker, needed=self._needed(plan.parts[name], part, ways))
            for name, part in ready.items()
        }
        free = plan.mode != "required" and not words
        parameters = {
            name: parameters_of(part.prepared.grammar, part.checker)
            for name, part in ready.items()
            if any(isinstance(way.args, Tags) for way in ways)
        }
        rules = self._rules(plan.row, matcher, ways, checks, parameters, free=free)
        stops = [end for end in (*ends, plan.row.text[1]) if end]
        views = views_of(plan.tools, {name: part.checker for name, part in ready.items()})
        return Constraint(rules, ways, tuple(stops), views, calls_only=plan.mode == "required")

    def _needed(self, part: Part, ready: _Ready, ways: tuple[Surface, ...]) -> bool:
        """Whether a finished value may turn out wrong and be taken back. Raises InvalidRequest."""
        notations = {way.args for way in ways if part.arguments} - {JSON}
        exact = all(is_exact(args, ready.prepared.grammar) for args in notations)
        less = not exact or bool(notations and ready.lark)
        if less and not self._can_retry:
            why = "this model, which cannot take back what it wrote, has another notation than JSON"
            raise part.refused(ValueError(why))
        return (less or ready.less) and self._can_retry

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
        watched = by_text if free and names else []
        first = [way.opening(names) for way in watched if way.bare]
        first += [opening for way in watched if (opening := way.first_opening())]
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
            openings=tuple(way.opening(names) for way in watched if not way.bare),
            first_openings=tuple(first),
            digits=self._digits,
            parser=parser,
            parameters=parameters,
            checks=checks,
            text_opening=row.text[0],
            openers=self._openers.of(allowed_next(matcher.deep_copy(), len(self._vocabulary)))
            if free and matcher
            else NOTHING,
            goes_on=self._openers.beginning_with(way.goes_on()) if matcher else NOTHING,
        )

    def _ready(self, part: Part) -> _Ready:
        """Raises InvalidRequest that names tool, pointer and keyword."""
        key = part.key()
        ready = self._schemas.get(key)
        if ready is None:
            try:
                if part.pattern is not None:
                    patterns.read(part.pattern)
                prepared = prepare(part.schema, arguments=part.arguments)
                self._check_retry(prepared)
                ready = _Ready(prepared, prepared.checker, less=prepared.says_less)
                if part.lark is not None:
                    ready = self._with_lark(ready, part.lark)
            except (Refusal, BadGrammar, patterns.BadPattern) as exc:
                raise part.refused(exc) from None
            self._schemas.put(key, ready)
        return ready

    def _with_lark(self, ready: _Ready, lark: str) -> _Ready:
        """The input held to a grammar too, while decoding if that can be. Raises BadGrammar."""
        check_lark(lark)
        grammar = lark_grammar(lark)
        error_of = self._backend.error
        if (error := error_of(grammar)) is not None:
            raise BadGrammar(f"not a Lark grammar: {error}")
        inside = inside_string(lark)
        if inside and error_of(lark_grammar("start: " + input_grammar(inside.lark))) is not None:
            inside = None
        if not (inside and inside.exact) and not self._can_retry:
            raise BadGrammar("this model cannot take back what it wrote")
        return replace(
            ready,
            checker=InputChecker(
                ready.checker, self._backend.matcher(grammar), self._backend.tokenizer
            ),
            lark=inside.lark if inside else None,
            less=ready.less or not (inside and inside.exact),
        )

    def _loosen(self, part: Part) -> None:
        """Replace what is prepared of a part, if the back end does not take it as it is."""
        ready = self._ready(part)

        def error_of(schema: dict[str, Any]) -> str | None:
            return self._backend.error(json_grammar(schema))

        if error_of(ready.prepared.grammar) is None:
            return
        try:
            prepared = ready.prepared.loosened(error_of)
            self._check_retry(prepared)
        except Refusal as exc:
            raise part.refused(exc) from None
        self._schemas.put(part.key(), replace(ready, prepared=prepared, less=prepared.says_less))

    def _check_retry(self, prepared: Prepared) -> None:
        if prepared.afterwards and not self._can_retry:
            raise Refusal(*prepared.afterwards[0], "this model cannot take back what it wrote")
