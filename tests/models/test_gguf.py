from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from models.gguf import OVERHEAD_BYTES, estimate_memory, read_facts
from server.errors import SetupError
from tests.models.helpers import LLAMA, gguf_bytes, gguf_string

TENSORS = [("token_embd.weight", [64, 3], 0, 768), ("blk.0.attn_q.weight", [256, 2], 12, 288)]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_facts_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", gguf_bytes(LLAMA, TENSORS))
    facts = read_facts(path)
    assert (facts.architecture, facts.name, facts.quantisation) == ("llama", "Tiny", "Q4_K_M")
    assert (facts.context_length, facts.block_count, facts.embedding_length) == (2048, 3, 64)
    assert facts.parameter_count == 64 * 3 + 256 * 2
    assert facts.chat_template == "{{ messages }}"
    assert facts.file_bytes == path.stat().st_size


def test_memory_is_file_plus_cache_plus_overhead(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", gguf_bytes(LLAMA, TENSORS))
    # 3 layers, 2 heads of 64 / 8 numbers for keys and as many for values, 2 bytes each
    per_token = 3 * 2 * (8 + 8) * 2
    fixed = path.stat().st_size + OVERHEAD_BYTES
    assert estimate_memory(path, 100) == fixed + 100 * per_token
    assert estimate_memory(path) == fixed + 2048 * per_token
    assert estimate_memory(path, 100, bytes_per_element=0.5) == fixed + 25 * per_token
    assert estimate_memory(path, 100, beside=30) == fixed + 130 * per_token


def test_heads_per_layer_and_stated_widths_count(tmp_path: Path) -> None:
    hybrid = LLAMA | {
        "llama.attention.head_count_kv": [0, 4, 2],
        "llama.attention.key_length": 16,
        "llama.attention.value_length": 32,
    }
    facts = read_facts(write(tmp_path / "m.gguf", gguf_bytes(hybrid)))
    assert facts.kv_elements_per_token == (4 + 2) * (16 + 32)


def test_a_long_context_is_cut_to_the_default(tmp_path: Path) -> None:
    long = LLAMA | {"llama.context_length": 1_000_000}
    assert read_facts(write(tmp_path / "m.gguf", gguf_bytes(long))).default_context_length == 8192


@pytest.mark.parametrize("cut", [1, 32, 1000, 1056, 1057, 1200])
def test_a_truncated_file_is_refused(tmp_path: Path, cut: int) -> None:
    whole = gguf_bytes(LLAMA, TENSORS)  # 1056 bytes of it are tensors
    path = write(tmp_path / "m.gguf", whole[:-cut])
    with pytest.raises(SetupError, match="incomplete"):
        read_facts(path)


def test_a_newer_tensor_type_is_not_taken_for_truncation(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", gguf_bytes(LLAMA, [("x", [1 << 40], 250, 32)]))
    assert read_facts(path).parameter_count == 1 << 40


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a GGUF file"),
        (b"GGUF", "not a GGUF file"),
        (b"<html>" + bytes(100), "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0) + bytes(99), "version 1"),
        (gguf_bytes({}) + bytes(99), "names no architecture"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60) + bytes(99), "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0) + bytes(99), "damaged"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 62) + bytes(99), "damaged"),
        # an array of 2**61 strings, and of 2**61 numbers
        (gguf_bytes({"a": 1})[:33] + struct.pack("<IIQ", 9, 8, 1 << 61) + bytes(99), "damaged"),
        (gguf_bytes({"a": 1})[:33] + struct.pack("<IIQ", 9, 4, 1 << 61) + bytes(99), "damaged"),
        # an array of arrays
        (gguf_bytes({"a": 1})[:33] + struct.pack("<IIQ", 9, 9, 1) + bytes(99), "damaged"),
    ],
)
def test_what_is_no_gguf_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        read_facts(write(tmp_path / "m.gguf", data))


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(SetupError, match="cannot read"):
            read_facts(path)


numbers = st.integers(0, 2**64 - 1).map(lambda n: struct.pack("<Q", n))
kinds = st.integers(0, 14).map(lambda n: struct.pack("<I", n))
strings = st.text(max_size=8).map(gguf_string)
keys = st.sampled_from([gguf_string(key) for key in LLAMA])
noise = st.lists(st.one_of(numbers, kinds, strings, keys, st.binary(max_size=16))).map(b"".join)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.integers(0, 5), tensors=st.integers(0, 3), rest=noise)
@example(pairs=1, tensors=0, rest=gguf_string("general.architecture") + struct.pack("<I", 99))
def test_random_headers_raise_nothing_but_setup_error(
    tmp_path: Path, pairs: int, tensors: int, rest: bytes
) -> None:
    path = write(tmp_path / "m.gguf", b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + rest)
    try:
        read_facts(path).memory_bytes()
    except SetupError:
        return


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_real_header_raises_nothing_but_setup_error(
    tmp_path: Path, data: st.DataObject
) -> None:
    raw = bytearray(gguf_bytes(LLAMA, TENSORS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 9))
        raw[at : at + 8] = data.draw(numbers)
    path = write(tmp_path / "m.gguf", bytes(raw))
    try:
        facts = read_facts(path)
    except SetupError:
        return
    assert facts.memory_bytes() >= facts.file_bytes
