"""What a prompt needs to know of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelFacts:
    """Read from the GGUF.

    `bos` and `eos` are the texts of these tokens, "" where there are none. `special_tokens` are the
    texts of all control tokens and of the user-defined tokens that are shaped like a marker. Where
    `adds_bos`, a prompt that does not begin with `bos` gets it put in front.
    """

    name: str
    chat_template: str | None
    bos: str
    eos: str
    special_tokens: tuple[str, ...]
    adds_bos: bool = False
