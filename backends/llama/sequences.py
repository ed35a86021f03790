"""Assignment of llama.cpp's sequences to the nodes of a token tree.

llama.cpp knows no trees: a token in its cache carries a set of sequence ids and is seen by tokens that share one. So every leaf
has an id of its own, and a node carries the ids of all leaves below it. Every id also carries the whole committed prefix,
always: a commit touches the new positions only (laying the ids over the prefix at every step took 35 + 41 ms at 8k tokens and
63 leaves, beside a pass of 11.6 ms).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...errors import UserError
from ..base import ROOT
from ..sessions.tree import Node
from .context import LlamaContext

ANY = -1
"""A sequence id that means all, and an end that means none."""


@dataclass(slots=True)
class LeafNode(Node):
    """A tentative token in the cache."""

    holders: int
    """The ids that run through it, as bits: exactly those that its token carries in the cache."""


class Sequences:
    """The ids that run through a session's nodes.

    Each id ends somewhere: at a node or at the committed tail (ROOT). At least one ends at every leaf; those to spare ride
    along to the first leaf, where an accepted draft leaves nothing to do for them.

    Args:
        memory: the cache: `cut` takes an id off positions, and a token without any id is free; `copy` puts one on the tokens of
            another.
        limit: most ids.
        nodes: the living ones, which the session adds and removes.
    """

    def __init__(self, memory: LlamaContext, limit: int, nodes: dict[int, LeafNode]) -> None:
        self._memory = memory
        self._limit = limit
        self.length = 0
        """Committed tokens."""
        self.nodes = nodes
        self._at = [ROOT]
        """Node at which each id ends."""
        self._grown: dict[int, list[int]] = {}
        """The ids that the last `grow` led on, by the node at which they ended."""

    def close(self) -> None:
        """Let go of the cache; nothing is called afterwards."""
        del self._memory

    def _position(self, node: int) -> int:
        """Return the position of a node, or of the last committed token."""
        return self.length - 1 if node == ROOT else self.nodes[node].position

    def grow(self, first: int, tokens: Sequence[int], parents: Sequence[int]) -> list[LeafNode]:
        """Make new nodes with ids from `first` on and lead sequences to their parents and along them; `withdraw` takes
        that back.

        Raises:
            UserError: more leaves than sequences; nothing was changed.
        """
        if len(tokens) == 1 and not self.nodes:
            # Plain decoding: every id runs through the one node.
            self._grown = {ROOT: list(range(len(self._at)))}
            self._at = [first] * len(self._at)
            return [LeafNode(tokens[0], ROOT, self.length, True, (1 << len(self._at)) - 1)]
        new: list[LeafNode] = []
        leaves: dict[int, list[int]] = {}
        """The new leaves below each living node, or the committed tail."""
        inner = set(parents)
        for number, (token, parent) in enumerate(zip(tokens, parents, strict=True), first):
            above = new[parent - first].position if parent >= first else self._position(parent)
            new.append(LeafNode(token, parent, above + 1, True, 0))
            if number not in inner:
                top = parent
                while top >= first:
                    top = new[top - first].parent
                leaves.setdefault(top, []).append(number)
        self._grown = self._supply({top: len(below) for top, below in leaves.items()})
        for top, below in leaves.items():
            ids = self._grown[top]
            spare = len(ids) - len(below)
            for i, k in enumerate(ids):
                node = self._at[k] = below[max(0, i - spare)]
                while node >= first:
                    new[node - first].holders |= 1 << k
                    node = new[node - first].parent
        return new

    def withdraw(self) -> None:
        """Take back the last `grow`: ids end again at the parents, whatever the cache holds of the new nodes."""
        for parent, ids in self._grown.items():
            for k in ids:
                self._memory.cut(k, self._position(parent) + 1, ANY)
                self._at[k] = parent

    def _supply(self, leaves_below: dict[int, int]) -> dict[int, list[int]]:
        """Return all ids that end at each of these nodes, after moving or adding as many as it gets leaves."""
        inner = {node.parent for node in self.nodes.values()}
        total = len(self.nodes.keys() - inner - leaves_below.keys()) + sum(leaves_below.values())
        if total > self._limit:
            raise UserError(
                f"A token tree with {total} leaves exceeds llama.cpp's limit of {self._limit} here. Use fewer branches."
            )
        ids: dict[int, list[int]] = {top: [] for top in leaves_below}
        spare: list[int] = []
        reserved = set[int]()
        for k, node in enumerate(self._at):
            if node in leaves_below and len(ids[node]) < leaves_below[node]:
                ids[node].append(k)
            elif node in leaves_below or node in reserved or node in inner or node == ROOT:
                spare.append(k)
            else:
                reserved.add(node)  # one for each other leaf
        spare.sort(key=lambda k: self._at[k] == ROOT)  # those at the committed tail need no removing, so they go first
        for top, count in leaves_below.items():
            while len(ids[top]) < count:
                k = spare.pop() if spare else self._new()
                self._move(k, top)
                ids[top].append(k)
        for k in spare:
            if self._at[k] in leaves_below:
                ids[self._at[k]].append(k)
        return ids

    def _new(self) -> int:
        k = len(self._at)
        self._at.append(ROOT)
        if self.length:
            self._memory.copy(0, k, 0, self.length)
        return k

    def _move(self, k: int, target: int) -> None:
        """Lead an id to another node: off those below the last that both ways share, and onto those above the target."""
        line: list[int] = []
        node = target
        while node != ROOT:
            line.append(node)
            node = self.nodes[node].parent
        shared = self._at[k]
        while shared != ROOT and shared not in line:
            self.nodes[shared].holders &= ~(1 << k)
            shared = self.nodes[shared].parent
        if shared != self._at[k]:
            self._memory.cut(k, self._position(shared) + 1, ANY)
        if shared != target:
            source = lowest(self.nodes[target].holders)
            self._memory.copy(source, k, self._position(shared) + 1, self._position(target) + 1)
            for node in line[: line.index(shared)] if shared in line else line:
                self.nodes[node].holders |= 1 << k
        self._at[k] = target

    def commit(self, path: Sequence[int], staying: Collection[int]) -> None:
        """Make `path` part of every id's prefix; of the other nodes only those in `staying` stay, which hang below its end."""
        nodes, old = self.nodes, self.length
        new = old + len(path)
        if len(path) == len(nodes) and nodes[path[-1]].holders + 1 == 1 << len(self._at):
            # A line that is wholly accepted: the ids are where they belong.
            self._at = [ROOT] * len(self._at)
            self.length = new
            return
        if not staying and any(node.position >= new for node in nodes.values()):
            self._memory.cut(ANY, new, ANY)
        begins = {ROOT: old, **{node: old + depth for depth, node in enumerate(path, 1)}}
        winner = lowest(nodes[path[-1]].holders) if path else 0
        for k, end in enumerate(self._at):
            place = end
            while place not in begins and place not in staying:
                place = nodes[place].parent
            begin = nodes[place].position + 1 if place in staying else begins[place]
            # Without kept nodes everything behind the new prefix is gone already.
            if place != end and (staying or begin < new):
                self._memory.cut(k, begin, ANY)
            if place in staying:
                self._at[k] = place
                continue
            if begin < new:
                self._memory.copy(winner, k, begin, new)
            self._at[k] = ROOT
        self.length = new

    def drop(self, freed: set[int]) -> None:
        """Free nodes; `freed` holds the descendants of each of its members."""
        if len(freed) == len(self.nodes):
            self._memory.cut(ANY, self.length, ANY)
            self._at = [ROOT] * len(self._at)
            return
        for k, end in enumerate(self._at):
            if end in freed:
                while end in freed:
                    end = self.nodes[end].parent
                self._memory.cut(k, self._position(end) + 1, ANY)
                self._at[k] = end

    def rewind(self, length: int) -> None:
        """Forget every node and all positions from `length` on."""
        if self.nodes or length < self.length:
            self._memory.cut(ANY, length, ANY)
            self._at = [ROOT] * len(self._at)
            self.length = length


def lowest(mask: int) -> int:
    """Return the lowest id in a set."""
    return (mask & -mask).bit_length() - 1
