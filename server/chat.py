"""The straight line of a chat request: conversation -> prompt -> constraint -> engine -> events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from prompts.conversation import Conversation
from prompts.guard import GUARD
from prompts.render import Renderer
from prompts.tool_format import ToolFormat
from server.call_bias import CallBias
from server.config import Settings
from server.constraint import Constraint, ConstraintCompiler
from server.deadline import Deadline
from server.ending import Ending, Ends, ends_of
from server.engine.engine import Engine
from server.engine.generation import Generation
from server.engine.sequence import CancelReason, Job
from server.engine.vocabulary import Vocabulary
from server.errors import ContextOverflow, InvalidRequest
from server.events import Event, Finish, Usage
from server.fit import FitJudge
from server.logs import reason_of
from server.lookup import Lookup
from server.output import OutputParser
from server.plan import Callee, Plan
from server.renderers import Renderers
from server.sampling import sampling_of
from server.scoring import ScoreQueue
from server.thinking import Thinking, ThinkingParser, Thoughts, ThoughtsMaker
from server.wire.chat import ChatRequest
from server.wire.history import to_conversation
from server.wire.ids import new_call_id

log = logging.getLogger(__name__)


class ChatService:
    """Answers chat requests with one model.

    `call_biases` and `more_calls_biases` are the model's, by template; `fit` finds out whether a
    tool fits, for the former to go by.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Engine,
        compiler: ConstraintCompiler,
        vocabulary: Vocabulary,
        renderers: Renderers,
        context_length: int,
        call_biases: Mapping[str, float],
        more_calls_biases: Mapping[str, float],
        fit: FitJudge,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._compiler = compiler
        self._vocabulary = vocabulary
        self._renderers = renderers
        self._call_biases = call_biases
        self._more_calls_biases = more_calls_biases
        self._fit = fit
        self._thoughts = ThoughtsMaker(vocabulary)
        self._context_length = context_length

    async def start(self, request: ChatRequest) -> Answer:
        """As `start_all`, for a request with one choice."""
        [answer] = await self.start_all(request)
        return answer

    async def start_all(self, request: ChatRequest) -> tuple[Answer, ...]:
        """An answer for each choice; everything that can be refused is refused here.

        Raises InvalidRequest, ContextOverflow, Busy, ShuttingDown, TimedOut.
        """
        deadline = Deadline.of(request.request_timeout_s, self._settings.request_timeout_s)
        async with deadline.kept():
            return await self._start_all(request, deadline)

    async def _start_all(self, request: ChatRequest, deadline: Deadline) -> tuple[Answer, ...]:
        _check_grammars(request, self._settings.max_grammar_chars)
        self._engine.check_count(request.n, param="n")
        renderer = self._renderers.get(request.prompt_template)
        conversation, text, prompt = await asyncio.to_thread(self._prompt, request, renderer)
        room = self._context_length - len(prompt)
        if room < 1:
            raise ContextOverflow(
                f"the prompt has {len(prompt)} tokens, the context is {self._context_length} tokens"
                " including the answer",
                param="messages",
            )
        row = renderer.row_after(text, continues=request.continues_final)
        compile_began_at = time.perf_counter()
        constraint = await self._compiler.compile(_plan(request, row))
        compile_s = time.perf_counter() - compile_began_at
        max_tokens = min(request.token_limit or room, room)
        ends = ends_of(request, self._vocabulary, max_tokens)
        sampling = sampling_of(
            request, self._vocabulary, self._settings.temperature, formal=_is_formal(request)
        )
        thoughts = self._thoughts_of(request, renderer, text)
        bias_by = self._bias_by(request, renderer, constraint)
        fit = None
        if bias_by is not None and self._fit.wanted(request, renderer):
            fit = await self._fit.judge(request, renderer, conversation, prompt)
            if fit is None and self._said_bias(request) is None:
                bias_by = 0.0  # what was measured holds only together with it
        more_by = self._settings.more_calls_bias
        if more_by is None:
            more_by = self._more_calls_biases.get(renderer.template_name, 0.0)

        margin = fit.margin if fit else 0.0

        async def begun() -> AsyncGenerator[Answer, None]:
            for index in range(request.n):
                bias = None if bias_by is None else constraint.bias(bias_by, margin)
                guide = constraint.guide(self._lookup(prompt), bias, more_by)
                thinking = Thinking(guide, thoughts) if thoughts else None
                held = thinking or guide
                ending = Ending(held, ends, self._vocabulary.end) if ends != Ends() else None
                job = Job(
                    prompt=prompt,
                    constraint=ending or held,
                    sampling=sampling.of_choice(index),
                    max_tokens=max_tokens,
                    top_logprobs=request.top_logprobs if request.logprobs else None,
                    before=fit.spent if fit and index == 0 else None,
                )
                parser = constraint.parser(new_id=new_call_id, stops=request.stop)
                reader = ThinkingParser(parser, thoughts) if thoughts else parser
                # The first one prefills the prompt, the others share its cells.
                generation = await self._engine.submit(job)
                generation.sequence.timings.compile_s = compile_s
                yield self._answer(request, generation, reader, ending, thinking, bias, deadline)

        return await all_or_none(begun())

    def _answer(
        self,
        request: ChatRequest,
        generation: Generation,
        parser: OutputParser | ThinkingParser,
        ending: Ending | None,
        thinking: Thinking | None,
        bias: CallBias | None,
        deadline: Deadline,
    ) -> Answer:
        return Answer(
            generation,
            parser,
            self._vocabulary,
            deadline,
            logs_text=self._settings.log_prompts,
            include_timings=request.include_timings,
            ending=ending,
            thinking=thinking,
            bias=bias,
        )

    def _bias_by(
        self, request: ChatRequest, renderer: Renderer, constraint: Constraint
    ) -> float | None:
        """By what calls are favoured against free text; None where that changes nothing.

        Raises InvalidRequest where a call or not is decided only within the grammar of an answer.
        """
        if request.choice.mode != "auto" or request.continues_final:
            return None
        by = request.tool_call_bias
        field = "tool_call_bias" if by else "fit_question" if request.fit_question else None
        if field and not constraint.chooses:
            raise InvalidRequest(
                f"{field} is not supported together with response_format, nor with a model that"
                " marks its answers in words as it marks calls",
                param=field,
            )
        by = self._said_bias(request)
        if by is None:
            measured = self._fit.as_measured(request, renderer)
            by = self._call_biases.get(renderer.template_name, 0.0) if measured else 0.0
        told = by or request.include_timings or self._fit.wanted(request, renderer)
        return by if constraint.chooses and told else None

    def _said_bias(self, request: ChatRequest) -> float | None:
        """The bias that somebody asked for, unlike the one that was measured."""
        said = request.tool_call_bias
        return self._settings.tool_call_bias if said is None else said

    def _lookup(self, prompt: list[int]) -> Lookup | None:
        limit = self._settings.lookup_tokens
        return Lookup(self._vocabulary, prompt, limit) if limit else None

    def prompt(self, request: ChatRequest) -> list[int]:
        """The tokens of a request's prompt. Raises InvalidRequest."""
        return self._prompt(request, self._renderers.get(request.prompt_template))[2]

    def _thoughts_of(
        self, request: ChatRequest, renderer: Renderer, prompt: str
    ) -> Thoughts | None:
        """How the answer to a prompt may think first, None if it does not."""
        start = None if request.continues_final else renderer.thinking(prompt)
        if start is None:
            return None
        budget = request.reasoning_budget
        if budget is None:
            budget = self._settings.reasoning_budget
        if request.reasoning_effort == "none":
            budget = 0
        return self._thoughts.make(renderer.row.reasoning, start, budget)

    def _prompt(
        self, request: ChatRequest, renderer: Renderer
    ) -> tuple[Conversation, str, list[int]]:
        """The conversation, its prompt as text, and the tokens of that."""
        conversation = to_conversation(request)
        text = renderer.render(conversation, continue_final=request.continues_final)
        if self._settings.log_prompts:
            log.info("prompt: %s", text)
        return conversation, text, self._vocabulary.encode_prompt(text, GUARD)


def _is_formal(request: ChatRequest) -> bool:
    return request.choice.mode != "none" or request.answer_schema is not None


def _check_grammars(request: ChatRequest, limit: int) -> None:
    for index, tool in enumerate(request.tools):
        grammar = (tool.lark or tool.pattern or "") if tool.type == "custom" else ""
        if len(grammar) > limit:
            raise InvalidRequest(
                f"the grammar of {tool.name!r} has {len(grammar)} characters, at most {limit} are"
                " taken",
                param=f"tools[{index}].{tool.path}",
            )


def _plan(request: ChatRequest, row: ToolFormat) -> Plan:
    """A call that must be made leaves no room for a text, and so for a form of one."""
    choice = request.choice
    return Plan(
        row=row,
        mode=choice.mode,
        tools=tuple(
            Callee(
                tool.name,
                tool.held,
                path=request.path_of(index),
                custom=tool.type == "custom",
                lark=tool.lark,
                pattern=tool.pattern,
                defaults=request.applies_defaults(tool),
            )
            for index, tool in enumerate(request.offered)
            if tool.name in choice.names
        ),
        parallel=choice.parallel,
        answer=None if choice.mode == "required" else request.answer_schema,
        answer_path=request.answer_path,
    )


async def all_or_none(answers: AsyncIterator[Answer]) -> tuple[Answer, ...]:
    """The answers to one request. If one is refused, those before it are cancelled."""
    begun: list[Answer] = []
    try:
        async for answer in answers:
            begun.append(answer)
    except BaseException:
        for answer in begun:
            answer.generation.cancel()
        raise
    return tuple(begun)


@dataclass
class Answer:
    """An answer under way. `events` once; leaving it early cancels the generation."""

    generation: Generation
    parser: OutputParser | ThinkingParser
    vocabulary: Vocabulary
    deadline: Deadline
    logs_text: bool
    include_timings: bool
    ending: Ending | None = None
    thinking: Thinking | None = None
    bias: CallBias | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of the answer; the last one is Finish. Raises what generation failed with."""
        tokens: list[int] = []
        scores = ScoreQueue(self.vocabulary, thinks=self.thinking is not None)
        end = "left"  # by the client, unless something else comes first
        why: CancelReason = "abort"
        try:
            async for update in self.generation.updates(
                self.deadline.limit_s, since=self.deadline.began_at
            ):
                shown = self._shown(update.tokens, len(tokens))
                tokens += update.tokens
                scores.add(update.scores[: len(shown)])
                events = self.parser.feed(self.vocabulary.decode(shown))
                ended = update.end is not None or self.parser.stopped
                if ended:
                    why = "stop"
                    events += self.parser.end()
                    end = reason = self.parser.finish_reason(update.end or "stop")
                    events.append(
                        Finish(reason, self._usage(len(tokens)), self._timings(len(tokens)))
                    )
                for event in events:
                    for told in (*scores.before(event, stopped=self.parser.stopped), event):
                        yield told
                if ended:
                    return
        except TimeoutError:
            end = why = "timeout"
            raise self.deadline.error() from None
        except Exception as exc:
            end = f"error ({reason_of(exc)})"
            raise
        finally:
            self.generation.cancel(why)
            self._log(end, tokens)

    def _shown(self, tokens: Sequence[int], before: int) -> list[int]:
        """Those of the next tokens that may be shown, of which there were `before`."""
        length = self.ending.length if self.ending is not None else None
        return list(tokens if length is None else tokens[: max(0, length - before)])

    def _usage(self, completion_tokens: int) -> Usage:
        sequence = self.generation.sequence
        return Usage(
            prompt_tokens=len(sequence.job.prompt),
            completion_tokens=completion_tokens,
            cached_tokens=sequence.timings.cached_tokens,
            reasoning_tokens=min(completion_tokens, self.thinking.tokens if self.thinking else 0),
        )

    def _timings(self, output_tokens: int) -> dict[str, float] | None:
        if not self.include_timings:
            return None
        sequence = self.generation.sequence
        timings = asdict(sequence.timings)
        del timings["submitted"]
        # A stop string ended it where the engine may not know yet, or have gone further.
        timings["output_tokens"] = output_tokens
        timings["total_s"] = timings["total_s"] or sequence.elapsed()
        if self.bias and self.bias.leaning:
            timings |= asdict(self.bias.leaning) | {"tool_call_bias": self.bias.by}
        return {name: round(value, 6) for name, value in timings.items()}

    def _log(self, end: str, tokens: list[int]) -> None:
        sequence = self.generation.sequence
        timings = sequence.timings
        log.info(
            "chat end=%s prompt=%d cached=%d prefilled=%d output=%d forced=%d drafted=%d"
            " accepted=%d passes=%d compile=%.3fs queue=%.3fs prefill=%.3fs decode=%.3fs"
            " constraint=%.3fs total=%.3fs",
            end,
            len(sequence.job.prompt),
            timings.cached_tokens,
            timings.prefilled_tokens,
            len(tokens),
            timings.forced_tokens,
            timings.drafted_tokens,
            timings.accepted_tokens,
            timings.forward_passes,
            timings.compile_s,
            timings.queue_s if sequence.started else sequence.elapsed(),
            timings.prefill_s,
            sequence.elapsed() - timings.queue_s - timings.prefill_s,
            timings.constraint_s,
            time.perf_counter() - self.deadline.began_at,
        )
        if self.logs_text:
            log.info("answer: %s", self.vocabulary.decode(tokens).decode("utf-8", "replace"))
