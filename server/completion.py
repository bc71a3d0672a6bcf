"""Text completions: raw prompts -> constraint -> engine -> events, without messages or template."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from prompts.formats import ToolFormat
from server.chat import Answer, all_or_none
from server.config import Settings
from server.constraint import ConstraintCompiler
from server.deadline import Deadline
from server.ending import Ending, ends_of
from server.engine.engine import Engine
from server.engine.generation import Generation
from server.engine.sequence import Job
from server.engine.vocabulary import Vocabulary
from server.errors import ContextOverflow, InvalidRequest
from server.output import OutputParser
from server.plan import Plan
from server.sampling import sampling_of
from server.wire.completions import CompletionRequest, Prompt
from server.wire.ids import new_call_id

RAW = ToolFormat("raw", "")  # no markers: whatever the vocabulary shows as text may be written


class CompletionService:
    """Answers completion requests with one model."""

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Engine,
        compiler: ConstraintCompiler,
        vocabulary: Vocabulary,
        context_length: int,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._compiler = compiler
        self._vocabulary = vocabulary
        self._context_length = context_length

    def encode(self, prompt: Prompt, *, path: str, parse_special: bool) -> list[int]:
        """The ids of a raw prompt. Ids are taken as they are, without a BOS.

        Raises InvalidRequest for an id that the model does not have.
        """
        if isinstance(prompt, str):
            return self._vocabulary.encode_raw(prompt, parse_special=parse_special, add_bos=True)
        self._check_ids(prompt, path)
        return list(prompt)

    def decode(self, prompt: Prompt, *, path: str) -> str:
        """The text of a prompt, special tokens included; bytes that are no text become U+FFFD.

        Raises InvalidRequest for an id that the model does not have.
        """
        if isinstance(prompt, str):
            return prompt
        self._check_ids(prompt, path)
        return self._vocabulary.decode(list(prompt)).decode("utf-8", "replace")

    def _check_ids(self, tokens: Sequence[int], path: str) -> None:
        if max(tokens, default=0) >= len(self._vocabulary):
            raise InvalidRequest(
                f"{path} has a token beyond the {len(self._vocabulary)} of this model", param=path
            )

    async def start(self, request: CompletionRequest) -> tuple[Answer, ...]:
        """`n` answers of the first prompt, then those of the next one.

        Everything that can be refused is refused here, before the first event. Raises
        InvalidRequest, ContextOverflow, Busy, ShuttingDown, TimedOut.
        """
        deadline = Deadline.of(request.request_timeout_s, self._settings.request_timeout_s)
        async with deadline.kept():
            return await self._start(request, deadline)

    async def _start(self, request: CompletionRequest, deadline: Deadline) -> tuple[Answer, ...]:
        many = "n" if request.n > 1 else "prompt"
        self._engine.check_count(request.n * len(request.prompt), param=many)
        prompts = await asyncio.to_thread(self._prompts, request)
        plan = Plan(
            row=RAW,
            mode="none",
            answer=request.answer_schema,
            answer_path=request.answer_path,
        )
        constraint = await self._compiler.compile(plan)
        sampling = sampling_of(
            request,
            self._vocabulary,
            self._settings.temperature,
            formal=request.answer_schema is not None,
        )

        async def begun() -> AsyncGenerator[Answer, None]:
            for index, prompt in enumerate(prompts):
                room = self._context_length - len(prompt)
                max_tokens = min(request.token_limit or room, room)
                ends = ends_of(request, self._vocabulary, max_tokens)
                ending = Ending(constraint.guide(), ends, self._vocabulary.end)
                job = Job(
                    prompt=prompt,
                    constraint=ending,
                    sampling=sampling.of_choice(index % request.n),
                    max_tokens=max_tokens,
                )
                parser = constraint.parser(new_id=new_call_id, stops=request.stop)
                yield self._answer(await self._engine.submit(job), parser, ending, deadline)

        return await all_or_none(begun())

    def _prompts(self, request: CompletionRequest) -> list[list[int]]:
        prompts = []
        for index, prompt in enumerate(request.prompt):
            path = "prompt" if len(request.prompt) == 1 else f"prompt[{index}]"
            tokens = self.encode(prompt, path=path, parse_special=request.parse_special)
            if not tokens:
                raise InvalidRequest(f"{path} is empty: there is nothing to go on", param=path)
            if len(tokens) >= self._context_length:
                raise ContextOverflow(
                    f"{path} has {len(tokens)} tokens, the context is {self._context_length} tokens"
                    " including the answer",
                    param=path,
                )
            prompts += [tokens] * request.n
        return prompts

    def _answer(
        self, generation: Generation, parser: OutputParser, ending: Ending, deadline: Deadline
    ) -> Answer:
        return Answer(
            generation,
            parser,
            self._vocabulary,
            deadline,
            logs_text=self._settings.log_prompts,
            include_timings=False,
            ending=ending,
        )
