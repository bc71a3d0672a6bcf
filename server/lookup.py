"""Prompt look-up: the word that is being written may be one of the prompt's.

Arguments often copy the question. What follows the begun word where the prompt has it last is a
guess at what comes next. Words are compared as bytes, not as tokens: a word after a quote has other
tokens than the same word after a blank.

Whether it pays depends on what one more token in a forward pass costs. On two CPU cores that is
half of a pass or more, and about every second guess is wrong (README, "Measured").
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from server.engine.vocabulary import Vocabulary

LONGEST = 64  # bytes of a guess
TAIL = 16  # tokens of the output that are looked at

_WORD = re.compile(rb"[\w\x80-\xff]+\Z")


class Lookup:
    """Guesses for one answer, at most `limit` tokens each."""

    def __init__(self, vocabulary: Vocabulary, prompt: list[int], limit: int) -> None:
        self._vocabulary = vocabulary
        self._text = vocabulary.decode(prompt)
        self._limit = limit

    def guess(self, output: Sequence[int]) -> list[int]:
        """Tokens that may follow, empty if the output ends with no word of the prompt."""
        begun = _WORD.search(self._vocabulary.decode(list(output[-TAIL:])))
        if begun is None:
            return []
        # The same letters within another word are no copy.
        places = re.finditer(rb"(?<![\w\x80-\xff])" + re.escape(begun[0]), self._text)
        end = max((place.end() for place in places), default=len(self._text))
        following = self._text[end : end + LONGEST]
        return self._vocabulary.encode_text(following)[: self._limit] if following else []
