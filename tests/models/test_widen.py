"""The faster copy of a model has the same weights, to the last bit."""

from __future__ import annotations

import random
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models import widen as widening
from models.catalog import load_catalog
from models.copies import drop_copies
from models.fetch import fetch
from models.gguf import read_facts
from models.progress import LineProgress
from models.widen import Q5_0, Q8_0, widen, widened
from server import config
from server.config import DEFAULT_MODEL
from server.engine.runner import BatchItem, LlamaRunner, RunnerOptions
from tests.models.helpers import LLAMA, gguf_bytes

# 64 blocks of Q5_0, 64 of Q8_0, 10 floats
TENSORS = [
    ("token_embd.weight", [32, 16], Q5_0, 16 * 22),
    ("blk.0.ffn_up.weight", [64, 32], Q5_0, 64 * 22),
    ("blk.0.ffn_norm.weight", [10], 0, 40),
    ("blk.0.attn_q.weight", [32, 8], Q8_0, 8 * 34),
]
OUTPUT = ("output.weight", [32, 4], Q8_0, 4 * 34)


def model(path: Path, *tensors: tuple[str, list[int], int, int]) -> Path:
    """A GGUF file whose tensors hold random bytes."""
    data = bytearray(gguf_bytes(LLAMA, tensors))
    path.write_bytes(data)
    layout = read_facts(path).layout
    noise = random.Random(7)
    for tensor in layout.tensors:
        begin = layout.data_at + tensor.offset
        data[begin : begin + tensor.bytes] = noise.randbytes(tensor.bytes)
    path.write_bytes(data)
    return path


def values(path: Path) -> dict[str, tuple[int, bytes]]:
    """Type and bytes of each tensor."""
    layout, data = read_facts(path).layout, path.read_bytes()
    begins = {tensor.name: layout.data_at + tensor.offset for tensor in layout.tensors}
    return {
        tensor.name: (tensor.kind, data[begins[tensor.name] :][: tensor.bytes])
        for tensor in layout.tensors
    }


def numbers_of_q5_0(block: bytes) -> list[int]:
    """As ggml reads a block, one number at a time."""
    high = int.from_bytes(block[2:6], "little")
    low = [byte & 15 for byte in block[6:]] + [byte >> 4 for byte in block[6:]]
    return [(low[i] | (high >> i & 1) << 4) - 16 for i in range(32)]


@given(st.lists(st.binary(min_size=22, max_size=22), min_size=1, max_size=5))
def test_a_block_keeps_its_scale_and_numbers(blocks: list[bytes]) -> None:
    array: NDArray[np.uint8] = np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, 22)
    for block, wide in zip(blocks, widen(array), strict=True):
        assert wide[:2].tobytes() == block[:2]
        assert wide[2:].view(np.int8).tolist() == numbers_of_q5_0(block)


def test_only_what_is_computed_with_is_widened(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", *TENSORS, OUTPUT)
    copy = widened(path, tmp_path / "fast")
    before, after = values(path), values(copy)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"blk.0.ffn_up.weight"}
    kind, data = after["blk.0.ffn_up.weight"]
    assert kind == Q8_0
    blocks = np.frombuffer(before["blk.0.ffn_up.weight"][1], np.uint8).reshape(-1, 22)
    assert data == widen(blocks).tobytes()
    facts, wide = read_facts(path), read_facts(copy)
    assert (facts.chat_template, facts.parameter_count) == (
        wide.chat_template,
        wide.parameter_count,
    )


def test_embeddings_that_are_the_output_too_are_widened(tmp_path: Path) -> None:
    copy = widened(model(tmp_path / "m.gguf", *TENSORS), tmp_path / "fast")
    assert values(copy)["token_embd.weight"][0] == Q8_0


def test_a_copy_is_made_once_and_anew_for_another_file(tmp_path: Path) -> None:
    path, folder = model(tmp_path / "m.gguf", *TENSORS), tmp_path / "fast"
    copy = widened(path, folder)
    made = copy.stat().st_ino
    assert widened(path, folder) == copy
    assert copy.stat().st_ino == made
    model(path, *TENSORS, OUTPUT)
    assert widened(path, folder) != copy


def test_a_model_with_little_to_widen_is_used_as_it_is(tmp_path: Path) -> None:
    little = model(tmp_path / "m.gguf", TENSORS[1], ("a", [32, 4000], Q8_0, 4000 * 34))
    unknown = model(tmp_path / "n.gguf", TENSORS[1], ("a", [32, 4], 99, 0))
    for path in (little, unknown):
        assert widened(path, tmp_path / "fast") == path
    assert not (tmp_path / "fast").exists()


def test_what_cannot_be_written_costs_no_more_than_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = model(tmp_path / "m.gguf", *TENSORS)
    (tmp_path / "file").write_text("")
    assert widened(path, tmp_path / "file") == path
    assert "no faster copy" in caplog.text

    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(free=1 << 20))
    assert widened(path, tmp_path / "fast") == path
    assert "no room" in caplog.text
    assert not list((tmp_path / "fast").iterdir())


def test_old_copies_make_room_and_go_with_their_model(tmp_path: Path) -> None:
    folder = tmp_path / "fast"
    paths = [model(tmp_path / f"m{i}.gguf", *TENSORS) for i in range(widening.KEPT_COPIES + 1)]
    copies = [widened(path, folder) for path in paths]
    assert len(list(folder.iterdir())) == widening.KEPT_COPIES
    assert copies[-1].exists()
    drop_copies(paths[-1], folder)
    assert not copies[-1].exists()
    assert len(list(folder.iterdir())) == widening.KEPT_COPIES - 1


@pytest.mark.weights
def test_a_real_model_computes_the_same(tmp_path: Path) -> None:
    entry = load_catalog().find(DEFAULT_MODEL)
    assert entry is not None
    path = fetch(entry, config.load().models_dir, offline=False, progress=LineProgress(print))
    copy = widened(path, tmp_path)
    assert copy != path

    def logits(file: Path) -> NDArray[np.float32]:
        runner = LlamaRunner(file, RunnerOptions(context_length=256, batch_tokens=64))
        tokens = runner.vocabulary.encode_text(b"def add(a, b):\n    return a + b\n" * 4)[:40]
        runner.decode([BatchItem(token, i, 0, True) for i, token in enumerate(tokens)])
        found = np.stack([runner.logits(row) for row in range(len(tokens))])
        runner.close()
        return found

    assert np.abs(logits(path) - logits(copy)).max() < 0.01
