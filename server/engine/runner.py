"""llama.cpp: one model, one context, forward passes over batches. The only importer of llama_cpp.

Everything here is called by the engine's thread alone, except what `load` and `facts` return.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import llama_cpp as lc
import numpy as np
from numpy.typing import NDArray

from server.engine.vocabulary import Vocabulary
from server.errors import SetupError, ShuttingDown

log = logging.getLogger(__name__)

Logits = NDArray[np.float32]  # shape (vocabulary,)

CACHE_TYPES = {"f16": lc.GGML_TYPE_F16, "q8_0": lc.GGML_TYPE_Q8_0, "q4_0": lc.GGML_TYPE_Q4_0}
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
SAMPLES, SAMPLE_BYTES = 64, 1 << 16  # of a model file, to tell it from others
SCORES_BYTES = 512 << 20  # of attention, at most; more are not faster
PIECE_BYTES = 4096  # no token of a known vocabulary is longer


class BatchItem(NamedTuple):
    """One token to decode. Logits are computed where `wants_logits` is set."""

    token: int
    position: int
    sequence_id: int
    wants_logits: bool


class OutOfCells(Exception):
    """The KV cache has no room for the batch; nothing was decoded."""


class DecodeFailed(Exception):
    """llama.cpp could not run the batch; what the KV cache holds is unknown."""


class LoadCancelled(Exception):
    """The model was not loaded to its end, as was asked for."""


class Runner(Protocol):
    """What the engine asks of a model. `tests/fakes.py` has a scripted one."""

    vocabulary: Vocabulary
    context_length: int
    can_cut: bool
    can_copy_out: bool

    def decode(self, items: Sequence[BatchItem]) -> None: ...
    def logits(self, row: int) -> Logits: ...
    def copy_prefix(self, source: int, target: int, length: int) -> None: ...
    def cut(self, sequence_id: int, length: int) -> None: ...
    def clear(self) -> None: ...
    def save(self) -> NDArray[np.uint8]: ...
    def restore(self, state: NDArray[np.uint8]) -> bool: ...
    def save_sequence(self, sequence_id: int) -> NDArray[np.uint8]: ...
    def restore_sequence(self, sequence_id: int, state: NDArray[np.uint8]) -> bool: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class RunnerOptions:
    """How to load and run a model. Zero or -1 where llama.cpp or we choose.

    `reproducible`: logits of a token do not depend on the shape of the batch that it was in. On
    x86-64 CPUs these depend on it: matrices that are packed anew, and tiles for K-quants, which
    serve larger batches only, and attention over an f16 cache, which sums up in f16 for small
    batches. All of them are left out; prefill takes two to three times as long.
    """

    context_length: int = 0
    threads: int = 0
    gpu_layers: int = -1
    batch_tokens: int = 256
    sequences: int = 1
    flash_attention: str = "auto"
    kv_cache_type: str = "f16"
    mlock: bool = False
    reproducible: bool = False


DEFAULT_CONTEXT = 8192  # more costs memory that most tool calls never use


class LlamaRunner:
    """A loaded model. `goes_on` is asked while it is loaded.

    Raises SetupError if the file or the memory will not do, LoadCancelled.
    """

    def __init__(
        self, path: Path, options: RunnerOptions, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        _route_logs()
        lc.llama_backend_init()
        self._model = _load_model(path, options, goes_on)
        trained = int(lc.llama_model_n_ctx_train(self._model))
        self.context_length = options.context_length or min(trained or 512, DEFAULT_CONTEXT)
        if trained and self.context_length > trained:
            log.warning("the model was trained on %d tokens of context only", trained)
        self._path = path
        self._cells = (
            self.context_length, options.sequences, _flash_attention(options),
            options.kv_cache_type, options.reproducible,
        )  # fmt: skip
        self._context = self._make_context(options)
        self._memory = lc.llama_get_memory(self._context)
        self._vocab = lc.llama_model_get_vocab(self._model)
        self._encoder = _Encoder(self._vocab)
        self.vocabulary = read_vocabulary(self._vocab, self._encoder)
        # Sequences of such models are one running state: nothing can be cut off or shared.
        self.can_cut = not (
            lc.llama_model_is_recurrent(self._model) or lc.llama_model_is_hybrid(self._model)
        )
        # Of a sliding window llama.cpp writes what can still be seen only: it cannot be cut back.
        self.can_copy_out = self.can_cut and not lc.llama_model_n_swa(self._model)
        self._batch = _Batch(options.batch_tokens)

    def _make_context(self, options: RunnerOptions) -> Any:
        cache_type = options.kv_cache_type
        if options.reproducible and cache_type == "f16":
            cache_type = "q8_0"
        params = lc.llama_context_default_params()
        params.n_ctx = self.context_length
        params.n_batch = options.batch_tokens
        params.n_ubatch = options.batch_tokens
        if _flash_attention(options) == "off":
            heads = lc.llama_model_n_head(self._model)
            params.n_ubatch = computed_at_once(heads, self.context_length, options.batch_tokens)
        params.n_seq_max = options.sequences
        params.n_threads = params.n_threads_batch = options.threads or physical_cores()
        params.flash_attn_type = FLASH_ATTENTION[_flash_attention(options)]
        params.type_k = params.type_v = CACHE_TYPES[cache_type]
        params.kv_unified = True  # sequences share cells, so that a prefix is held once
        params.swa_full = True  # a window that forgets could not be cut back
        params.no_perf = True
        context = lc.llama_init_from_model(self._model, params)
        if not context:
            raise SetupError(
                f"llama.cpp could not make a context of {self.context_length} tokens",
                hint="Give a smaller --context-length, or --kv-cache-type q8_0.",
            )
        return context

    def chat_template(self) -> str | None:
        """The GGUF's own chat template."""
        raw = lc.llama_model_chat_template(self._model, None)
        return raw.decode("utf-8", "replace") if raw else None

    def decode(self, items: Sequence[BatchItem]) -> None:
        """Run one forward pass. Raises OutOfCells or DecodeFailed."""
        self._batch.fill(items)
        status = lc.llama_decode(self._context, self._batch.struct)
        if status == 1:
            raise OutOfCells
        if status != 0:
            raise DecodeFailed(f"llama_decode returned {status}")

    def logits(self, row: int) -> Logits:
        """Logits of batch item `row` of the last pass: a view, valid until the next pass."""
        pointer = lc.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(pointer, shape=(len(self.vocabulary),))

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Let `target` share the cells of the first `length` positions of `source`."""
        lc.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def cut(self, sequence_id: int, length: int) -> None:
        """Keep the first `length` positions of a sequence; 0 frees it."""
        lc.llama_memory_seq_rm(self._memory, sequence_id, length, -1)

    def clear(self) -> None:
        lc.llama_memory_clear(self._memory, True)

    def save(self) -> NDArray[np.uint8]:
        """All cells that are in use, as bytes: about what they take in memory."""
        state = np.empty(lc.llama_state_get_size(self._context), np.uint8)
        written = lc.llama_state_get_data(self._context, _address(state), len(state))
        return state[:written]

    def restore(self, state: NDArray[np.uint8]) -> bool:
        """Put back what `save` gave, of the same model and options; False if that failed.

        Nothing is held then. Bytes from elsewhere may end the process.
        """
        if lc.llama_state_set_data(self._context, _address(state), len(state)) == len(state):
            return True
        self.clear()
        return False

    def save_sequence(self, sequence_id: int) -> NDArray[np.uint8]:
        """The cells of one sequence, as bytes."""
        state = np.empty(lc.llama_state_seq_get_size(self._context, sequence_id), np.uint8)
        written = lc.llama_state_seq_get_data(
            self._context, _address(state), len(state), sequence_id
        )
        return state[:written]

    def restore_sequence(self, sequence_id: int, state: NDArray[np.uint8]) -> bool:
        """Put back what `save_sequence` gave, into free cells; False if there were too few.

        The sequence holds nothing then.
        """
        read = lc.llama_state_seq_set_data(self._context, _address(state), len(state), sequence_id)
        if read == len(state):
            return True
        self.cut(sequence_id, 0)
        return False

    def identity(self) -> str:
        """Names the model and what the layout of cells depends on. Reads parts of the file."""
        digest = hashlib.sha256(f"{lc.__version__} {self._cells}".encode())
        size = self._path.stat().st_size
        digest.update(str(size).encode())
        with self._path.open("rb") as file:
            for offset in range(0, size, max(SAMPLE_BYTES, size // SAMPLES)):
                file.seek(offset)
                digest.update(file.read(SAMPLE_BYTES))
        return digest.hexdigest()

    def close(self) -> None:
        self._encoder.close()
        lc.llama_free(self._context)
        lc.llama_model_free(self._model)


class _Batch:
    """A llama_batch whose arrays numpy can fill at once."""

    def __init__(self, size: int) -> None:
        self.struct = lc.llama_batch_init(size, 0, 1)
        self._token = np.ctypeslib.as_array(self.struct.token, shape=(size,))
        self._position = np.ctypeslib.as_array(self.struct.pos, shape=(size,))
        self._n_sequences = np.ctypeslib.as_array(self.struct.n_seq_id, shape=(size,))
        self._wants_logits = np.ctypeslib.as_array(self.struct.logits, shape=(size,))
        self._n_sequences[:] = 1

    def fill(self, items: Sequence[BatchItem]) -> None:
        n = len(items)
        self.struct.n_tokens = n
        self._token[:n] = [item.token for item in items]
        self._position[:n] = [item.position for item in items]
        self._wants_logits[:n] = [item.wants_logits for item in items]
        for i, item in enumerate(items):
            self.struct.seq_id[i][0] = item.sequence_id


def _address(data: NDArray[np.uint8]) -> Any:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def _load_model(path: Path, options: RunnerOptions, goes_on: Callable[[], bool]) -> Any:
    @lc.llama_progress_callback  # type: ignore[untyped-decorator]
    def progress(share: float, _: Any) -> bool:
        return goes_on()

    params = lc.llama_model_default_params()
    offload = bool(lc.llama_supports_gpu_offload())
    params.n_gpu_layers = options.gpu_layers if options.gpu_layers >= 0 else 999 * offload
    if options.reproducible:
        params.n_gpu_layers = 0
        params.use_extra_bufts = False  # no matrices packed anew
        os.putenv("GGML_CPU_TILED_MM", "0")  # read once, by the first large batch of a process
    params.use_mlock = options.mlock
    params.progress_callback = progress
    model = lc.llama_model_load_from_file(str(path).encode(), params)
    if not model and not goes_on():
        raise LoadCancelled
    if not model:
        raise SetupError(
            f"llama.cpp could not load {path}",
            hint="The lines above say why; `callwright models verify` checks fetched files.",
        )
    return model


def read_vocabulary(vocab: Any, encode: Callable[[bytes], list[int]]) -> Vocabulary:
    """All tokens of a llama_vocab. Takes about a second for 150,000 tokens."""
    buffer = ctypes.create_string_buffer(PIECE_BYTES)
    pieces: list[bytes] = []
    control: set[int] = set()
    special: set[int] = set()
    end: set[int] = set()
    for token in range(lc.llama_vocab_n_tokens(vocab)):
        length = lc.llama_token_to_piece(vocab, token, buffer, PIECE_BYTES, 0, True)
        piece = buffer.raw[: max(length, 0)]
        pieces.append(piece)
        attributes = lc.llama_vocab_get_attr(vocab, token)
        if attributes & (lc.LLAMA_TOKEN_ATTR_CONTROL | lc.LLAMA_TOKEN_ATTR_UNKNOWN):
            control.add(token)
        elif attributes & lc.LLAMA_TOKEN_ATTR_USER_DEFINED and _is_marker(piece):
            special.add(token)
        if lc.llama_vocab_is_eog(vocab, token):
            end.add(token)
    bos = lc.llama_vocab_bos(vocab)
    return Vocabulary(
        pieces=tuple(pieces),
        control=frozenset(control),
        special=frozenset(special | control),
        end=frozenset(end),
        eos=lc.llama_vocab_eos(vocab),
        bos=bos if bos >= 0 else None,
        adds_bos=bool(lc.llama_vocab_get_add_bos(vocab)),
        encode=encode,
    )


def _is_marker(piece: bytes) -> bool:
    return piece[:1] + piece[-1:] in (b"<>", b"[]") and len(piece) > 2


class _Encoder:
    """Text to tokens, in any thread. Raises ShuttingDown once it is closed, with the model."""

    def __init__(self, vocab: Any) -> None:
        self._vocab = vocab
        self._changed = threading.Condition()
        self._users = 0
        self._closed = False

    def __call__(self, text: bytes) -> list[int]:
        with self._changed:
            if self._closed:
                raise ShuttingDown("the model is not loaded any more")
            self._users += 1
        try:
            size = len(text) + 8
            tokens = (lc.llama_token * size)()
            count = lc.llama_tokenize(self._vocab, text, len(text), tokens, size, False, False)
            return list(tokens[:count])
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Wait for those under way, and refuse all others."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._users)


def physical_cores() -> int:
    """Cores that this process may use, counting hyper-threads of one core once."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if allowed is None:
        return os.cpu_count() or 1
    siblings = set()
    for cpu in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(path.read_text().strip() if path.exists() else str(cpu))
    return max(1, len(siblings))


def system_info() -> str:
    """CPU and GPU features that llama.cpp was built with."""
    return str(lc.llama_print_system_info().decode())


def supports_gpu() -> bool:
    return bool(lc.llama_supports_gpu_offload())


def computed_at_once(heads: int, context_length: int, batch_tokens: int) -> int:
    """How many tokens of a batch are computed at once, so that the scores of attention fit.

    There is one for each token, head and cell; with flash attention they are not kept.
    """
    fitting = SCORES_BYTES // (4 * max(1, heads) * context_length)
    return min(batch_tokens, max(32, fitting // 32 * 32))


def _flash_attention(options: RunnerOptions) -> str:
    """Off on a CPU, where llama.cpp's kernel for it takes a row of queries at a time.

    Matrix products take 64 of them for a weight that is read once: measured after 500, 2,000 and
    8,000 tokens, a pass of 16 tokens takes 0.8, 0.5 and 0.3 of the time. The kernel alone can read
    values of a cache that is no f16.
    """
    on_cpu = not options.gpu_layers or not supports_gpu()
    plain = options.kv_cache_type == "f16" and not options.reproducible
    wanted = options.flash_attention
    return "off" if wanted == "auto" and on_cpu and plain else wanted


# Its warnings are about things that a user of a model can do nothing about.
LEVELS = {2: logging.DEBUG, 3: logging.DEBUG, 4: logging.ERROR}


@lc.llama_log_callback  # type: ignore[untyped-decorator]
def _log_line(level: int, text: bytes, _: Any) -> None:
    line = text.decode("utf-8", "replace").strip()
    if line and level in LEVELS:
        log.log(LEVELS[level], "llama.cpp: %s", line)


def _route_logs() -> None:
    lc.llama_log_set(_log_line, None)
