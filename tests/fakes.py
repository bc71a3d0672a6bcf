"""A model for tests without weights: a vocabulary of bytes, and a runner that keeps strict books.

`ScriptedRunner` stands in for llama.cpp. Its logits follow from the tokens that a sequence really
holds, so that a wrong cell gives a wrong answer, and it refuses whatever llama.cpp would refuse or
silently do wrong. Misuse is raised and kept: the engine turns exceptions into failed requests, so
`check` tells at the end of a test.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from server.engine.runner import BatchItem, DecodeFailed, OutOfCells
from server.engine.sampler import Logits
from server.engine.vocabulary import Vocabulary

IM_START, IM_END, TOOL_CALL, TOOL_CALL_END, EOS = range(256, 261)
BOS = 261
OPENING = "<|im_start|>assistant\n"  # where a prompt ends and an answer begins
WAIT_S = 20.0  # nothing in these tests takes as long: whoever waits longer hangs

NextToken = Callable[[tuple[int, ...]], int]


def byte_vocabulary(*, bos: bool = False) -> Vocabulary:
    """A token per byte, and the markers of ChatML.

    As in llama.cpp, control tokens are never found in plain text, user-defined ones
    (`<tool_call>`, `</tool_call>`) always.
    """
    markers = [b"<|im_start|>", b"<|im_end|>", b"<tool_call>", b"</tool_call>", b"<|endoftext|>"]
    if bos:
        markers.append(b"<s>")
    pieces = (*(bytes([byte]) for byte in range(256)), *markers)
    special = frozenset(range(256, len(pieces)))
    user_defined = {TOOL_CALL, TOOL_CALL_END}
    found = re.compile(b"(" + b"|".join(re.escape(pieces[token]) for token in user_defined) + b")")

    def encode(text: bytes) -> list[int]:
        tokens: list[int] = []
        for i, part in enumerate(found.split(text)):
            tokens += [pieces.index(part)] if i % 2 else part
        return tokens

    return Vocabulary(
        pieces=pieces,
        control=special - user_defined,
        special=special,
        end=frozenset({IM_END, EOS}),
        eos=EOS,
        bos=BOS if bos else None,
        adds_bos=bos,
        encode=encode,
    )


class UnexpectedPrompt(AssertionError):
    """No script says what the model answers to this prompt."""


class Scripts:
    """What the model wants to say, by a text that the prompt contains; then it ends its turn.

    The script whose key comes last in the prompt counts, so that a conversation may hold earlier
    questions. If a constraint made the answer differ, the model goes on at the same length.
    """

    def __init__(self, says: Mapping[str, str], opening: str = OPENING) -> None:
        vocabulary = byte_vocabulary()
        self._opening = tuple(vocabulary.encode_prompt(opening, "\0"))
        self._says = {key: vocabulary.encode_prompt(text, "\0") for key, text in says.items()}
        self._decode = vocabulary.decode
        self.unused = set(says)

    def __call__(self, tokens: tuple[int, ...]) -> int:
        begin = self._answer_begins(tokens)
        prompt = self._decode(list(tokens[:begin])).decode("utf-8", "replace")
        key = max(self._says, key=lambda key: (prompt.rfind(key), len(key)), default="")
        if key not in prompt or not self._says:
            raise UnexpectedPrompt(f"…{prompt[-200:]!r}")
        self.unused.discard(key)
        said = len(tokens) - begin
        script = self._says[key]
        return script[said] if said < len(script) else IM_END

    def _answer_begins(self, tokens: tuple[int, ...]) -> int:
        size = len(self._opening)
        for begin in range(len(tokens) - size, -1, -1):
            if tokens[begin] == self._opening[0] and tokens[begin : begin + size] == self._opening:
                return begin + size
        raise UnexpectedPrompt(f"no {self._opening!r} in {self._decode(list(tokens))!r}")


class Gate:
    """Holds forward passes back until a test lets them through."""

    def __init__(self, allowed: int = 0) -> None:
        self._changed = threading.Condition()
        self._allowed: float = allowed
        self._arrived = 0

    def enter(self) -> None:
        """Called with each pass: returns when it may run."""
        with self._changed:
            self._arrived += 1
            number = self._arrived
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: number <= self._allowed, WAIT_S):
                raise Misuse(f"pass {number} was never let through")

    def wait(self, number: int) -> None:
        """Wait until pass `number`, counted from 1, is asked for."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._arrived >= number, WAIT_S):
                raise AssertionError(f"only {self._arrived} passes were asked for, not {number}")

    def allow(self, passes: int) -> None:
        """Let so many passes through in all."""
        with self._changed:
            self._allowed = passes
            self._changed.notify_all()

    def open(self) -> None:
        """Let everything through from now on."""
        with self._changed:
            self._allowed = float("inf")
            self._changed.notify_all()


class Misuse(AssertionError):
    """What llama.cpp would refuse, or do without a word and wrongly."""


class _Cell:
    """A KV cell; its position is its place in the lists of the sequences that hold it."""

    def __init__(self, token: int) -> None:
        self.token = token


class ScriptedRunner:
    """Implements Runner. `say` is the token that the model prefers after all that came before."""

    def __init__(
        self,
        say: NextToken,
        *,
        context_length: int = 512,
        batch_tokens: int = 64,
        sequences: int = 8,
        can_cut: bool = True,
        gate: Gate | None = None,
    ) -> None:
        self.vocabulary = byte_vocabulary()
        self.context_length = context_length
        self.can_cut = self.can_copy_out = can_cut
        self.sequences = sequences
        self.passes: list[tuple[BatchItem, ...]] = []
        self.misuse: list[str] = []
        self.closed = False
        self.say = say
        self.batch_tokens = batch_tokens
        self._gate = gate
        self._cells: dict[int, list[_Cell]] = {i: [] for i in range(sequences)}
        self._rows: dict[int, tuple[int, ...]] = {}
        self._failure: Exception | None = None
        self._broken = False

    # What tests ask

    def check(self) -> None:
        """Raise if anything was misused on the way."""
        assert not self.misuse, self.misuse

    def fail_next(self, failure: OutOfCells | DecodeFailed) -> None:
        """Let the next pass fail."""
        self._failure = failure

    @property
    def used_cells(self) -> int:
        return len({id(cell) for cells in self._cells.values() for cell in cells})

    def held(self, sequence_id: int) -> list[int]:
        """The tokens that a sequence holds, by position."""
        return [cell.token for cell in self._cells[sequence_id]]

    def prefer(self, tokens: Sequence[int]) -> Logits:
        """Logits after these tokens: the scripted token, over noise that follows from them all."""
        seed = zlib.crc32(np.array(tokens, np.int32).tobytes())
        logits = np.random.default_rng(seed).standard_normal(len(self.vocabulary), np.float32)
        logits[self.say(tuple(tokens))] = 8
        logits.flags.writeable = False
        return logits

    # Runner

    def decode(self, items: Sequence[BatchItem]) -> None:
        if self._gate:
            self._gate.enter()
        self._require(not self.closed, "decode after close")
        failure, self._failure = self._failure, None
        if failure:
            self._broken = isinstance(failure, DecodeFailed)
            raise failure
        self._require(not self._broken, "decode after a failed pass without clear")
        self._require(0 < len(items) <= self.batch_tokens, f"a batch of {len(items)} tokens")
        if self.used_cells + len(items) > self.context_length:
            raise OutOfCells
        self.passes.append(tuple(items))
        self._rows = {}
        for row, item in enumerate(items):
            cells = self._sequence(item.sequence_id)
            self._require(item.position == len(cells), f"{item} after {len(cells)} positions")
            self._require(0 <= item.token < len(self.vocabulary), f"no such token: {item}")
            cells.append(_Cell(item.token))
            if item.wants_logits:
                self._rows[row] = tuple(self.held(item.sequence_id))

    def logits(self, row: int) -> Logits:
        self._require(row in self._rows, f"no logits were asked for in row {row}")
        try:
            return self.prefer(self._rows[row])
        except AssertionError as exc:
            self.misuse.append(repr(exc))
            raise

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        held = self._sequence(source)
        self._require(self.can_cut, "this model's sequences cannot share")
        self._require(0 < length <= len(held), f"copy {length} of {len(held)} positions")
        self._require(not self._sequence(target), f"copy into {target}, which holds cells")
        self._cells[target] = held[:length]

    def cut(self, sequence_id: int, length: int) -> None:
        held = self._sequence(sequence_id)
        self._require(0 <= length <= len(held), f"cut {len(held)} positions to {length}")
        self._require(self.can_cut or length in (0, len(held)), "this model cannot be cut")
        del held[length:]

    def clear(self) -> None:
        for cells in self._cells.values():
            cells.clear()
        self._broken = False

    def save(self) -> NDArray[np.uint8]:
        cells = {id(cell): cell.token for held in self._cells.values() for cell in held}
        held = {slot: [id(cell) for cell in held] for slot, held in self._cells.items()}
        return np.frombuffer(json.dumps([cells, held]).encode(), np.uint8)

    def restore(self, state: NDArray[np.uint8]) -> bool:
        self._require(not self.used_cells, "restored over cells")
        cells, held = json.loads(state.tobytes())
        made = {name: _Cell(token) for name, token in cells.items()}
        self._cells = {int(slot): [made[str(one)] for one in ids] for slot, ids in held.items()}
        return True

    def save_sequence(self, sequence_id: int) -> NDArray[np.uint8]:
        self._require(self.can_copy_out, "this model's sequences cannot be copied out")
        return np.frombuffer(json.dumps(self.held(sequence_id)).encode(), np.uint8)

    def restore_sequence(self, sequence_id: int, state: NDArray[np.uint8]) -> bool:
        self._require(not self._sequence(sequence_id), f"{sequence_id} holds cells already")
        tokens = json.loads(state.tobytes())
        if self.used_cells + len(tokens) > self.context_length:
            return False
        self._cells[sequence_id] = [_Cell(token) for token in tokens]
        return True

    def close(self) -> None:
        self._require(not self.closed, "closed twice")
        self.closed = True

    def _sequence(self, sequence_id: int) -> list[_Cell]:
        self._require(sequence_id in self._cells, f"no such sequence: {sequence_id}")
        return self._cells[sequence_id]

    def _require(self, right: bool, complaint: str) -> None:
        if not right:
            self.misuse.append(complaint)
            raise Misuse(complaint)
