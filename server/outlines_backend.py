"""Grammar -> matcher over one model's vocabulary. Outlines' only door: its llguidance back end.

What is expensive, reading the vocabulary, is done once per model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import llguidance
from outlines.backends.llguidance import LLGuidanceBackend

from server.engine.vocabulary import Vocabulary
from server.guided import Matcher

LIMITS = {
    # An object of many optional members makes long rows.
    "max_items_in_row": 20_000,
    "step_max_items": 400_000,
    "initial_lexer_fuel": 4_000_000,
}


class OutlinesBackend:
    """Compiles grammars in llguidance's Lark dialect."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._compiler = _Compiler(vocabulary)

    @property
    def tokenizer(self) -> Any:
        """The vocabulary as llguidance's LLTokenizer."""
        return self._compiler.llg_tokenizer

    def matcher(self, grammar: str) -> Matcher:
        """Raises ValueError with what the back end has to say."""
        processor = self._compiler.get_cfg_logits_processor(grammar)
        limits = llguidance.LLParserLimits(**LIMITS)
        matcher = llguidance.LLMatcher(
            processor.llg_tokenizer, processor.grammar, log_level=0, limits=limits
        )
        if matcher.is_error():
            raise ValueError(_summary(matcher.get_error()))
        if not any(matcher.deep_copy().compute_bitmask()) or _is_dead(matcher.deep_copy()):
            raise ValueError("Unsatisfiable schema: no value satisfies it")
        return matcher  # type: ignore[no-any-return]

    def error(self, grammar: str) -> str | None:
        """What the back end has against a grammar."""
        try:
            self.matcher(grammar)
        except ValueError as exc:
            return str(exc)
        return None


def _is_dead(matcher: Any) -> bool:
    matcher.compute_bitmask()
    return bool(matcher.is_stopped() and not matcher.is_accepting())


def _summary(error: str) -> str:
    """The back end's message without the grammar that it quotes."""
    text = re.split(r"\n\s*\d+ \| ", error)[0]
    text = re.sub(r"^at \d+\(\d+\): ", "", text).replace("failed to compile JSON schema: ", "")
    return re.sub(r"\s+", " ", text)[:300]


class _Compiler(LLGuidanceBackend):  # type: ignore[misc]
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
