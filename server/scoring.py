"""Which log-probabilities are told with which event of an answer."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable

from server.engine.logprobs import Logprob, Score
from server.engine.vocabulary import Vocabulary
from server.events import Event, Finish, Logprobs, ScoredToken, Text, TokenLogprob


class ScoreQueue:
    """Holds the scores of tokens until an event shows what came of them.

    While the answer is text, a token is told when the text that it begins in is: what a stop text
    may cut off is held back. From the first other event on, all are told at once; so they are from
    the beginning if there may be thinking, whose tags are no text.
    """

    def __init__(self, vocabulary: Vocabulary, *, thinks: bool = False) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: deque[tuple[int, ScoredToken]] = deque()  # by the character they begin in
        self._read = 0  # characters of all tokens
        self._shown = 0  # characters of the text that was shown
        self._text_only = not thinks

    def add(self, scores: Iterable[Score]) -> None:
        for score in scores:
            chosen = self._named(score.chosen)
            top = tuple(self._named(other) for other in score.top)
            self._waiting.append((self._read, ScoredToken(chosen, top)))
            self._read += len(self._decoder.decode(chosen.piece))

    def before(self, event: Event, *, stopped: bool) -> list[Event]:
        """What is to be told before an event: one Logprobs, or nothing.

        `stopped`: a stop text ended the answer, and what was not shown is no part of it.
        """
        if isinstance(event, Text):
            self._shown += len(event.text)
        elif not isinstance(event, Finish) or not stopped:
            self._text_only = False
        ready: list[ScoredToken] = []
        while self._waiting and (not self._text_only or self._waiting[0][0] < self._shown):
            ready.append(self._waiting.popleft()[1])
        return [Logprobs(tuple(ready))] if ready else []

    def _named(self, one: Logprob) -> TokenLogprob:
        return TokenLogprob(self._vocabulary.pieces[one.token], one.logprob)
