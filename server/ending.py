"""When a text may or must end: further tokens that end it, and a least length, around a guide."""

from __future__ import annotations

from dataclasses import dataclass

from server.engine.sampler import Allowed, Logits
from server.engine.vocabulary import Vocabulary
from server.errors import InvalidRequest
from server.guide import Guide
from server.thinking import Thinking
from server.wire.extent import EndFields


@dataclass(frozen=True)
class Ends:
    """`tokens` end a text from its `least` tokens on; the model's own ends do from `own` on."""

    tokens: frozenset[int] = frozenset()
    least: int = 0
    own: int = 0


def ends_of(fields: EndFields, vocabulary: Vocabulary, max_tokens: int) -> Ends:
    """What a request says. Raises InvalidRequest for a token that the model does not have."""
    if max(fields.stop_token_ids, default=0) >= len(vocabulary):
        raise InvalidRequest(
            f"stop_token_ids names a token beyond the {len(vocabulary)} of this model",
            param="stop_token_ids",
        )
    return Ends(
        tokens=frozenset(fields.stop_token_ids),
        least=fields.min_tokens,
        own=max_tokens if fields.ignore_eos else fields.min_tokens,
    )


class Ending:
    """Implements the engine's TokenConstraint. Only text is touched: a call or JSON is the guide's.

    `model_ends` are the tokens with which the model ends a turn. `length`: how many tokens the text
    has, if it was ended by one of `ends.tokens`, which comes as a token too but is no part of it.
    """

    def __init__(self, guide: Guide | Thinking, ends: Ends, model_ends: frozenset[int]) -> None:
        self._guide = guide
        self._stops = ends.tokens - model_ends
        self._model_ends = model_ends
        self._ends = ends
        self._count = 0
        self.length: int | None = None

    def weigh(self, logits: Logits) -> Logits:
        return self._guide.weigh(logits)

    def forced(self) -> list[int]:
        run = self._guide.forced() if self.length is None else []
        self._count += len(run)
        return run

    def allows(self, token: int) -> bool:
        if self._guide.free:
            if token in self._stops:
                return self._count >= self._ends.least
            if token in self._model_ends and self._count < self._ends.own:
                return False
        return self._guide.allows(token)

    def mask(self) -> Allowed:
        allowed = self._guide.mask()
        if self._guide.free:
            allowed[list(self._stops)] = self._count >= self._ends.least
            if self._count < self._ends.own:
                allowed[list(self._model_ends)] = False
        return allowed

    def accept(self, token: int) -> None:
        if self._guide.free and token in self._stops:
            self.length = self._count
        else:
            self._guide.accept(token)
        self._count += 1

    def finished(self) -> bool:
        return self.length is not None or self._guide.finished()

    def held(self) -> int:
        return self._guide.held()

    def take_back(self) -> int:
        back = self._guide.take_back()
        self._count -= back
        return back

    def likely(self, limit: int) -> list[int]:
        return self._guide.likely(limit)
