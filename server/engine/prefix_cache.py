"""Which KV cells hold which tokens: a radix tree over token prefixes. Pure accounting.

A node is a run of cells that hold one run of tokens; its holders are the sequences that those cells
belong to in llama.cpp. A child's holders are always among its parent's. Cells are free again when
the last holder lets go. Sequences that have ended may stay as holders (retired), so that a later
prompt can share their cells; the least recently used retired sequence is given up first.

Two sequences that computed the same tokens on their own have two nodes: the tree tells what is in
the cells, never what could have been shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class _Node:
    tokens: list[int]
    parent: _Node | None
    holders: set[int] = field(default_factory=set)
    children: list[_Node] = field(default_factory=list)


@dataclass(frozen=True)
class Books:
    """What a cache holds, in plain values, to be kept.

    A node is the index of its parent (-1: the root), which comes before it, its tokens and its
    holders. `retired` are the sequences, least recently used first.
    """

    nodes: list[tuple[int, list[int], list[int]]]
    retired: list[int]


@dataclass(frozen=True)
class Match:
    """The first `length` tokens are in the cells of sequence `holder`."""

    holder: int
    length: int


class PrefixCache:
    """Accounting of `capacity` cells. Raises KeyError for a sequence that holds nothing."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used_cells = 0
        self._root = _Node([], None)
        self._leaf: dict[int, _Node] = {}
        self._retired: dict[int, None] = {}  # in order of use, oldest first

    @property
    def free_cells(self) -> int:
        return self.capacity - self.used_cells

    @property
    def retired(self) -> tuple[int, ...]:
        """Ended sequences that still hold cells, least recently used first."""
        return tuple(self._retired)

    def tokens(self, sequence_id: int) -> list[int]:
        """The tokens whose cells a sequence holds, in order."""
        return [token for node in self._path(sequence_id) for token in node.tokens]

    def cells_of(self, sequence_ids: set[int]) -> int:
        """How many cells at least one of these sequences holds."""
        count, nodes = 0, list(self._root.children)
        while nodes:
            node = nodes.pop()
            if not node.holders.isdisjoint(sequence_ids):
                count += len(node.tokens)
                nodes += node.children
        return count

    def match(self, tokens: Sequence[int]) -> Match | None:
        """The longest prefix of `tokens` that some sequence holds; None if there is none.

        Counts as use of all retired sequences that hold those cells.
        """
        best, length = self._root, 0
        found = [(self._root, 0)]  # nodes whose tokens all agree, and where they end
        while found:
            node, end = found.pop()
            for child in node.children:
                common = common_prefix(child.tokens, tokens, end)
                if end + common > length:
                    best, length = child, end + common
                if common == len(child.tokens):
                    found.append((child, end + common))
        if length == 0:
            return None
        for retired in self.retired:
            if retired in best.holders:
                del self._retired[retired]
                self._retired[retired] = None
        return Match(min(best.holders), length)

    def held(self, match: Match, sequence_ids: set[int]) -> int:
        """How many cells of a match at least one of these sequences holds."""
        count = 0
        for node in self._path(match.holder):
            if count >= match.length or node.holders.isdisjoint(sequence_ids):
                break
            count += len(node.tokens)
        return min(count, match.length)

    def share(self, source: int, sequence_id: int, length: int) -> None:
        """Make a new sequence a holder of the first `length` cells of `source`."""
        node = self._root
        for step in self._path(source):
            if length == 0:
                break
            if length < len(step.tokens):
                step = self._split(step, length)
            step.holders.add(sequence_id)
            length -= len(step.tokens)
            node = step
        self._leaf[sequence_id] = node

    def append(self, sequence_id: int, tokens: Sequence[int]) -> None:
        """Tokens of a sequence were decoded into new cells. An unknown sequence begins here."""
        leaf = self._leaf.get(sequence_id, self._root)
        if leaf is not self._root and not leaf.children and leaf.holders == {sequence_id}:
            leaf.tokens.extend(tokens)
        else:
            node = _Node(list(tokens), leaf, {sequence_id})
            leaf.children.append(node)
            self._leaf[sequence_id] = node
        self.used_cells += len(tokens)

    def truncate(self, sequence_id: int, length: int) -> None:
        """A sequence keeps its first `length` cells only."""
        kept, gone = self._root, []
        for node in self._path(sequence_id):
            if 0 < length < len(node.tokens):
                kept, length = self._split(node, length), 0  # the node itself is now the rest
            if length == 0:
                gone.append(node)
            else:
                kept = node
                length -= len(node.tokens)
        self._let_go(gone, sequence_id)
        self._leaf[sequence_id] = kept

    def release(self, sequence_id: int) -> None:
        """A sequence holds nothing any more."""
        self._let_go(self._path(sequence_id), sequence_id)
        del self._leaf[sequence_id]
        self._retired.pop(sequence_id, None)

    def retire(self, sequence_id: int, *, oldest: bool = False) -> None:
        """A sequence has ended; its cells may be shared until they are needed.

        It counts as used last, or with `oldest` before all others.
        """
        self._path(sequence_id)
        if oldest:
            self._retired = {sequence_id: None, **self._retired}
        else:
            self._retired[sequence_id] = None

    def evict(self) -> int | None:
        """Release the least recently used retired sequence and return it; None if there is none."""
        if not self._retired:
            return None
        oldest = next(iter(self._retired))
        self.release(oldest)
        return oldest

    def books(self) -> Books:
        """What the retired sequences hold; there must be no others."""
        nodes: list[tuple[int, list[int], list[int]]] = []
        found = [(child, -1) for child in self._root.children]
        while found:
            node, parent = found.pop()
            found += [(child, len(nodes)) for child in node.children]
            nodes.append((parent, node.tokens, sorted(node.holders)))
        return Books(nodes, list(self._retired))

    def restore(self, books: Books) -> None:
        """Take over what another cache of this capacity held; this one must be empty."""
        nodes: list[_Node] = []
        for parent_index, tokens, holders in books.nodes:
            parent = self._root if parent_index < 0 else nodes[parent_index]
            node = _Node(list(tokens), parent, set(holders))
            parent.children.append(node)
            nodes.append(node)
            self.used_cells += len(tokens)
            # Parents come first, so that the last node of a sequence is its leaf.
            self._leaf.update(dict.fromkeys(holders, node))
        self._retired = dict.fromkeys(books.retired)

    def _path(self, sequence_id: int) -> list[_Node]:
        """Nodes of a sequence from the root (left out) to its leaf."""
        path = []
        node: _Node | None = self._leaf[sequence_id]
        while node is not None and node is not self._root:
            path.append(node)
            node = node.parent
        return path[::-1]

    def _split(self, node: _Node, length: int) -> _Node:
        """Cut a node in two; return the head, which holds its first `length` tokens."""
        assert node.parent is not None
        head = _Node(node.tokens[:length], node.parent, set(node.holders), [node])
        node.parent.children.remove(node)
        node.parent.children.append(head)
        node.tokens, node.parent = node.tokens[length:], head
        return head

    def _let_go(self, path: list[_Node], sequence_id: int) -> None:
        """Remove a holder from the last nodes of its path; nodes without holders vanish."""
        for node in reversed(path):
            node.holders.discard(sequence_id)
            if not node.holders:
                self.used_cells -= len(node.tokens)
                assert node.parent is not None
                node.parent.children.remove(node)


def common_prefix(held: list[int], tokens: Sequence[int], start: int = 0) -> int:
    """How many tokens `held` and `tokens[start:]` have in common at their beginning."""
    stop = min(len(held), len(tokens) - start)
    if stop <= 0 or held[0] != tokens[start]:
        return 0
    if held[:stop] == list(tokens[start : start + stop]):
        return stop
    low, high = 1, stop  # the first `low` agree, the first `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        if held[low:middle] == list(tokens[start + low : start + middle]):
            low = middle
        else:
            high = middle
    return low
