from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.facts import ModelFacts
from prompts.gguf_facts import read_model_facts
from server.errors import SetupError


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item: Any) -> bytes:
    """Type and value of one metadata entry."""
    if isinstance(item, bool):
        return struct.pack("<I?", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    kind = 8 if isinstance(item[0], str) else 6 if isinstance(item[0], float) else 5
    body = b"".join(
        text(one) if kind == 8 else struct.pack("<f" if kind == 6 else "<i", one) for one in item
    )
    return struct.pack("<IIQ", 9, kind, len(item)) + body


def header(pairs: dict[str, Any]) -> bytes:
    body = b"".join(text(key) + value(item) for key, item in pairs.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body


PAIRS = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "llama.block_count": 2,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "qwen2",
    "tokenizer.ggml.tokens": ["a", "<s>", "</s>", "<tool_call>", "\n\n", "[X]", "<unk>", "<x>"],
    "tokenizer.ggml.token_type": [1, 3, 3, 4, 4, 4, 2, 5],
    "tokenizer.ggml.scores": [0.0] * 8,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.chat_template": "{{ messages }}",
}


def read(tmp_path: Path, data: bytes) -> ModelFacts:
    path = tmp_path / "tiny-model.gguf"
    path.write_bytes(data)
    return read_model_facts(path)


def test_the_facts_of_a_file(tmp_path: Path) -> None:
    assert read(tmp_path, header(PAIRS)) == ModelFacts(
        name="Tiny",
        chat_template="{{ messages }}",
        bos="<s>",
        eos="</s>",
        special_tokens=("<s>", "</s>", "<tool_call>", "[X]", "<unk>"),
        adds_bos=False,
    )


def test_a_file_that_says_little(tmp_path: Path) -> None:
    assert read(tmp_path, header({"tokenizer.chat_template": ""})) == ModelFacts(
        "tiny-model", None, "", "", ()
    )
    odd = {"tokenizer.ggml.tokens": 3, "tokenizer.ggml.bos_token_id": 99, "general.name": 1}
    assert read(tmp_path, header(odd)).bos == ""


@pytest.mark.parametrize(
    ("pairs", "adds_bos"),
    [
        ({"tokenizer.ggml.model": "llama"}, True),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe"}, True),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}, False),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.add_bos_token": False}, False),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.add_bos_token": True}, True),
    ],
)
def test_whether_bos_is_added(tmp_path: Path, pairs: dict[str, Any], adds_bos: bool) -> None:
    assert read(tmp_path, header(pairs)).adds_bos is adds_bos


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GG",
        b"not a model at all, but long enough",
        header(PAIRS)[:-5],
        header(PAIRS)[:60],
        b"GGUF" + struct.pack("<IQQ", 3, 0, 10**6),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 2**62),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 10, 2**62),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SetupError, match=r"tiny-model\.gguf"):
        read(tmp_path, data)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file"):
        read_model_facts(tmp_path / "none.gguf")


@given(data=st.data())
def test_no_bytes_make_it_fail_in_another_way(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(header(PAIRS))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(raw)
    try:
        read_model_facts(path)
    except SetupError:
        pass
