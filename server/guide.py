"""The constraint of one sequence: which token may come next.

Two phases. *Free*: any text, watched for an opening of a call. *Guided*: a matcher holds the answer
to the grammar. An answer may begin in either, and goes from free to guided once.

Where a bias kept the model from beginning with a call, text cannot open one either.
"""

from __future__ import annotations

from server.call_bias import CallBias
from server.engine.sampler import Allowed, Logits
from server.engine.vocabulary import Vocabulary
from server.guided import Guided, Rules
from server.lookup import Lookup
from server.openings import OpeningFinder


class Guide:
    """Implements the engine's TokenConstraint."""

    def __init__(
        self,
        rules: Rules,
        lookup: Lookup | None = None,
        bias: CallBias | None = None,
        more_by: float = 0.0,
    ) -> None:
        self._rules = rules
        self._lookup = lookup
        self._bias = bias
        self._more_by = more_by
        self._finder = OpeningFinder(rules.openings, first=rules.first_openings)
        self._refused: set[int] = set()
        self._takeover: list[int] | None = None
        self._guided: Guided | None = None
        if rules.free is None:
            self._guided = self._enter([])

    @property
    def free(self) -> bool:
        """Whether the answer is still any text."""
        return self._guided is None

    def weigh(self, logits: Logits) -> Logits:
        if self._guided:
            return self._guided.weigh(logits)
        return self._bias.weigh(logits) if self._bias else logits

    def forced(self) -> list[int]:
        return self._guided.forced() if self._guided else []

    def allows(self, token: int) -> bool:
        if self._guided:
            return self._guided.allows(token)
        if token in self._rules.triggers:
            return not self._closed
        if token in self._rules.vocabulary.end:
            return True
        assert self._rules.free is not None
        if token in self._refused:
            return False
        opens = self._opens(token)
        if not self._rules.free[token] and not (opens and token in self._rules.joints):
            return False
        return not opens or self._enters(token)

    def mask(self) -> Allowed:
        if self._guided:
            return self._guided.mask()
        if self._takeover is not None:
            return Guided(self._rules, self._takeover).mask()
        assert self._rules.free is not None
        allowed = self._rules.free.copy()
        if self._closed:
            allowed[list(self._rules.triggers)] = False
        else:
            allowed[[token for token in self._rules.joints if self._opens(token)]] = True
        allowed[list(self._refused)] = False
        return allowed

    def accept(self, token: int) -> None:
        if self._guided is None:
            self._accept_free(token)
        else:
            self._guided.accept(token)

    def finished(self) -> bool:
        return self._guided is not None and self._guided.finished()

    def held(self) -> int:
        return self._guided.held() if self._guided else 0

    def take_back(self) -> int:
        return self._guided.take_back() if self._guided else 0

    def likely(self, limit: int) -> list[int]:
        return self._guided.likely(limit) if self._guided else []

    # The free phase

    @property
    def _closed(self) -> bool:
        """Whether text can open a call no more."""
        return self._bias is not None and self._bias.prevented

    def _opens(self, token: int) -> bool:
        return self._finder.peek(self._rules.vocabulary.pieces[token])

    def _enters(self, token: int) -> bool:
        """Whether the grammar takes an opening that `token` completes; remembers what to do if not.

        The token may say more than the opening, and not what the grammar wants next. Then the call
        is entered before this token, which is chosen again under the grammar.
        """
        held, piece = self._finder.held, self._rules.vocabulary.pieces[token]
        if not self._closed:
            if self._entry(held + piece) is not None:
                return True
            self._takeover = self._entry(held) if held else None
        if self._takeover is None:
            self._refuse(piece)
        return False

    def _refuse(self, piece: bytes) -> None:
        """Refuse all tokens that complete an opening with the same bytes as this one.

        But not those with which a call may begin, if a call may.
        """
        sizes = range(1, len(piece) + 1)
        opening = next(piece[:size] for size in sizes if self._finder.peek(piece[:size]))
        pieces = self._rules.vocabulary.pieces
        refused = {t for t, other in enumerate(pieces) if other.startswith(opening)}
        if not self._closed and not self._finder.held:
            refused -= set(Guided(self._rules, []).mask().nonzero()[0].tolist())
        self._refused |= refused

    def _entry(self, text: bytes) -> list[int] | None:
        """Tokens of an opening that the grammar takes; None if it does not take this one.

        The grammar is one of bytes: any tokens of a text will do, if it has no marker that is a
        token. White space before an opening may belong to it.
        """
        vocabulary = self._rules.vocabulary
        bare = text.lstrip()
        for begin in range(len(text) - len(bare), -1, -1):
            tokens = vocabulary.encode_text(text[begin:])
            if self._fits(tokens):
                return tokens
            if self._rules.joints:
                tokens = _with_markers(vocabulary, text[begin:])
                if self._fits(tokens):
                    return tokens
        return None

    def _fits(self, tokens: list[int]) -> bool:
        assert self._rules.matcher is not None
        return self._rules.matcher.validate_tokens(tokens) == len(tokens)

    def _enter(self, prefix: list[int]) -> Guided:
        return Guided(self._rules, prefix, self._lookup, self._more_by)

    def _accept_free(self, token: int) -> None:
        piece = self._rules.vocabulary.pieces[token]
        if self._bias:
            self._bias.accept(token, piece)
        if token in self._rules.triggers:
            self._guided = self._enter([])
            self._guided.accept(token)
        elif self._takeover is not None:
            self._guided = self._enter(self._takeover)
            self._guided.accept(token)
        elif self._opens(token) and (entry := self._entry(self._finder.held + piece)):
            self._guided = self._enter(entry)
        else:
            self._finder.feed(piece)
        self._refused.clear()
        self._takeover = None


def _with_markers(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """Tokens of a text, with special tokens as such."""
    tokens: list[int] = []
    for part in vocabulary.split_special(text.decode("utf-8", "replace")):
        tokens += [part] if isinstance(part, int) else vocabulary.encode_text(part.encode())
    return tokens
