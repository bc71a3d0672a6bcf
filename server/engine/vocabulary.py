"""What the rest of the server may know of a vocabulary: bytes, kinds of tokens, encoding."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model, by id.

    `control` tokens never stand for text. `special` ones are the control tokens and user-defined
    ones shaped like a marker, `<…>`: templates write them, text never does. `end` tokens end a
    turn. `encode` turns plain UTF-8 into ids and adds nothing of its own (no BOS);
    where `adds_bos`, a prompt begins with `bos`.
    """

    pieces: tuple[bytes, ...]
    control: frozenset[int]
    special: frozenset[int]
    end: frozenset[int]
    eos: int
    bos: int | None
    encode: Callable[[bytes], list[int]]
    adds_bos: bool = False

    def __len__(self) -> int:
        return len(self.pieces)

    def decode(self, tokens: list[int]) -> bytes:
        return b"".join(self.pieces[token] for token in tokens)

    @cached_property
    def special_ids(self) -> dict[str, int]:
        """Text of every special token to its id."""
        return {self.text(token): token for token in sorted(self.special) if self.pieces[token]}

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        # Longest first: a marker may be the beginning of another.
        texts = sorted(self.special_ids, key=len, reverse=True)
        return re.compile("(" + "|".join(map(re.escape, texts)) + ")" if texts else r"((?!))")

    def text(self, token: int) -> str:
        return self.pieces[token].decode("utf-8", "replace")

    def split_special(self, text: str) -> list[str | int]:
        """`text` as plain pieces and ids of the special tokens between them."""
        parts = self._special_pattern.split(text)
        return [self.special_ids[part] if i % 2 else part for i, part in enumerate(parts) if part]

    def encode_text(self, text: bytes) -> list[int]:
        """Token ids of plain text, special tokens spelled out.

        llama.cpp finds user-defined tokens in any text; here their text is only text.
        """
        tokens = []
        for token in self.encode(text):
            if token in self.special and len(self.pieces[token]) > 1:
                tokens += self.encode(self.pieces[token][:1])
                tokens += self.encode_text(self.pieces[token][1:])
            else:
                tokens.append(token)
        return tokens

    def encode_raw(self, text: str, *, parse_special: bool, add_bos: bool) -> list[int]:
        """Token ids of a text that nothing was rendered into.

        `parse_special`: what looks like a special token is one. `add_bos`: as prompts begin.
        """
        parts = self.split_special(text) if parse_special else [text]
        tokens: list[int] = []
        for part in parts:
            encoded = part if isinstance(part, int) else part.encode("utf-8", "replace")
            tokens += [encoded] if isinstance(encoded, int) else self.encode_text(encoded)
        return self._begun(tokens) if add_bos else tokens

    def encode_prompt(self, text: str, guard: str) -> list[int]:
        """Token ids of a rendered prompt.

        Special tokens come from the template only: text of clients has `guard` inside whatever
        looks like one.
        """
        tokens: list[int] = []
        for part in self.split_special(text):
            if isinstance(part, int):
                tokens.append(part)
            else:
                text_bytes = part.replace(guard, "").encode("utf-8", "replace")
                tokens += self.encode_text(text_bytes)
        return self._begun(tokens)

    def _begun(self, tokens: list[int]) -> list[int]:
        """With BOS, where the model's prompts begin with it."""
        if self.adds_bos and self.bos is not None and tokens[:1] != [self.bos]:
            return [self.bos, *tokens]
        return tokens
