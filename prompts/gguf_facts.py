"""`ModelFacts` from the header of a GGUF file, so that prompts can be shown without the model.

The server itself takes the same facts from the loaded vocabulary. A header is untrusted: every
length is checked against the file before it is used, and only the few values that matter are kept.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prompts.facts import ModelFacts
from server.errors import SetupError

_MAX_HEADER_BYTES = 64 << 20
_MAX_PAIRS = 4096
_FORMS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i",
    6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4  # token types
_TOKENIZER = "tokenizer.ggml."
# Byte-level tokenizers that put BOS in front where the file does not say (llama.cpp's list).
_BYTE_LEVEL_WITH_BOS = frozenset(
    {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}
    | {"tekken", "chameleon"}
)


def read_model_facts(path: Path) -> ModelFacts:
    """Raises SetupError if the file cannot be read or is damaged."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _facts(path, _Cursor(data).metadata())
    except (OSError, ValueError) as exc:  # ValueError: mmap refuses an empty file
        reason = exc.strerror if isinstance(exc, OSError) else "it is empty"
        raise SetupError(f"cannot read the model file {path}: {reason}") from None
    except _Damaged:
        raise SetupError(
            f"{path} is no GGUF file, or its header is damaged",
            hint="`callwright models verify` checks fetched files",
        ) from None


class _Damaged(Exception):
    """The header does not hold what it says."""


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._limit = min(len(data), _MAX_HEADER_BYTES)
        self._at = 0

    def metadata(self) -> dict[str, Any]:
        """The pairs that name the model or belong to its tokenizer, but not scores and merges."""
        if self._bytes(4) != b"GGUF":
            raise _Damaged
        self._scalar("<I"), self._scalar("<Q")
        count = int(self._scalar("<Q"))
        if count > _MAX_PAIRS:
            raise _Damaged
        pairs: dict[str, Any] = {}
        for _ in range(count):
            key = self._string()
            wanted = key == "general.name" or key.startswith("tokenizer.")
            value = self._value(int(self._scalar("<I")))
            if wanted and not key.endswith((".scores", ".merges")):
                pairs[key] = value
        return pairs

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _FORMS:
            raise _Damaged
        return self._scalar(_FORMS[kind])

    def _array(self) -> list[Any]:
        kind, count = int(self._scalar("<I")), int(self._scalar("<Q"))
        if count > self._limit:
            raise _Damaged
        if kind == _STRING:
            return self._many(self._string, count)
        if kind not in _FORMS:
            raise _Damaged
        form = f"<{count}{_FORMS[kind][1:]}"
        return list(struct.unpack(form, self._bytes(struct.calcsize(form))))

    def _many(self, read: Callable[[], str], count: int) -> list[str]:
        return [read() for _ in range(count)]

    def _string(self) -> str:
        return self._bytes(int(self._scalar("<Q"))).decode("utf-8", "replace")

    def _scalar(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self._bytes(struct.calcsize(form)))[0]
        return value

    def _bytes(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        if self._at > self._limit:
            raise _Damaged
        return self._data[start : self._at]


def _facts(path: Path, metadata: dict[str, Any]) -> ModelFacts:
    tokens = _list(metadata, "tokens")
    kinds = _list(metadata, "token_type")
    template = metadata.get("tokenizer.chat_template")
    name = metadata.get("general.name")
    return ModelFacts(
        name=name if isinstance(name, str) and name else path.stem,
        chat_template=template if isinstance(template, str) and template else None,
        bos=_token(metadata, tokens, "bos_token_id"),
        eos=_token(metadata, tokens, "eos_token_id"),
        special_tokens=tuple(
            text for text, kind in zip(tokens, kinds, strict=False) if text and _special(text, kind)
        ),
        adds_bos=_adds_bos(metadata),
    )


def _special(text: str, kind: int) -> bool:
    marker = len(text) > 2 and text[0] + text[-1] in ("<>", "[]")
    return kind in (_UNKNOWN, _CONTROL) or (kind == _USER_DEFINED and marker)


def _adds_bos(metadata: dict[str, Any]) -> bool:
    stated = metadata.get(_TOKENIZER + "add_bos_token")
    if isinstance(stated, bool):
        return stated
    if metadata.get(_TOKENIZER + "model") == "gpt2":
        return metadata.get(_TOKENIZER + "pre") in _BYTE_LEVEL_WITH_BOS
    return metadata.get(_TOKENIZER + "model") == "llama"


def _list(metadata: dict[str, Any], key: str) -> list[Any]:
    value = metadata.get(_TOKENIZER + key)
    return value if isinstance(value, list) else []


def _token(metadata: dict[str, Any], tokens: list[str], key: str) -> str:
    index = metadata.get(_TOKENIZER + key)
    return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else ""
