"""Assignment of llama.cpp's sequences to the nodes of a token tree.

llama.cpp knows no trees: a token in its cache carries a set of sequence ids and is seen by tokens that share one. So every leaf
has an id of its own, and a node carries the ids of all leaves below it. Every id also carries the whole committed prefix,
always: a commit touches the new positions only (laying the ids over the prefix at every step took 35 + 41 ms at 8k tokens and
63 leaves, beside a pass of 11.6 ms).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...errors import UserError
from ..base import ROOT
from ..sessions.tree import Node

ANY = -1
"""A sequence id that means all, and an end that means none."""


class Memory(Protocol):
    """Operations on llama.cpp's cache."""

    def remove(self, sequence: int, begin: int, end: int) -> None:
        """Take the id off the positions [begin, end); a token without any id is free."""

    def copy(self, source: int, target: int, begin: int, end: int) -> None:
        """Put the id `target` on the tokens of `source` at the positions [begin, end)."""


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
        memory: the cache.
        limit: most ids.
        nodes: the living ones, which the session adds and removes.
    """

    def __init__(self, memory: Memory, limit: int, nodes: dict[int, LeafNode]) -> None:
        self._memory = memory
        self._limit = limit
        self.length = 0
        """Committed tokens."""
        self.nodes = nodes
        self._at = [ROOT]
        """Node at which each id ends."""
        self._grown: list[tuple[int, list[int]]] = []

    @property
    def all(self) -> int:
        """Every id in use, as bits."""
        return (1 << len(self._at)) - 1

    def position(self, node: int) -> int:
        """Return the position of a node, or of the last committed token."""
        return self.length - 1 if node == ROOT else self.nodes[node].position

    def grow(self, first: int, tokens: Sequence[int], parents: Sequence[int]) -> list[LeafNode]:
        """Make new nodes with ids from `first` on and lead sequences to their parents and along them; `withdraw` takes
        that back.

        Raises:
            UserError: more leaves than sequences; nothing was changed.
        """
        n = len(tokens)
        if n == 1 and not self.nodes:
            # Plain decoding: every id runs through the one node.
            self._grown = [(ROOT, list(range(len(self._at))))]
            self._at = [first] * len(self._at)
            return [LeafNode(tokens[0], ROOT, self.length, True, self.all)]
        need = [0] * n
        below: dict[int, list[int]] = {}
        for i in range(n - 1, -1, -1):
            need[i] = need[i] or 1
            parent = parents[i]
            below.setdefault(parent, []).append(i)
            if parent >= first:
                need[parent - first] += need[i]
        tops = {parent: sum(need[i] for i in children) for parent, children in below.items() if parent < first}
        ids = self._supply(tops)
        assigned: list[list[int]] = [[]] * n
        masks = [0] * n
        nodes: list[LeafNode] = []

        def share(children: list[int], mine: list[int], mask: int) -> None:
            """The first child gets what the others do not need; children are listed last to first."""
            for child in children[:-1]:
                assigned[child] = mine[len(mine) - need[child] :]
                mine = mine[: len(mine) - need[child]]
                masks[child] = bits(assigned[child])
                mask &= ~masks[child]
            assigned[children[-1]], masks[children[-1]] = mine, mask

        self._grown = []
        for parent in tops:
            self._grown.append((parent, ids[parent]))
            share(below[parent], ids[parent], bits(ids[parent]))
        for i in range(n):
            parent = parents[i]
            above = (
                self.length - 1
                if parent == ROOT
                else (nodes[parent - first] if parent >= first else self.nodes[parent]).position
            )
            nodes.append(LeafNode(tokens[i], parent, above + 1, True, masks[i]))
            children = below.get(first + i)
            if children is None:
                for k in assigned[i]:
                    self._at[k] = first + i
            else:
                share(children, assigned[i], masks[i])
        return nodes

    def withdraw(self) -> None:
        """Take back the last `grow`: ids end again at the parents, whatever the cache holds of the new nodes."""
        for parent, ids in self._grown:
            for k in ids:
                self._memory.remove(k, self.position(parent) + 1, ANY)
                self._at[k] = parent

    def _supply(self, tops: dict[int, int]) -> dict[int, list[int]]:
        """Return all ids that end at each of these nodes, after moving or adding as many as are required."""
        ids: dict[int, list[int]] = {ROOT: list(range(len(self._at)))} if not self.nodes else {}
        inner, leaves = set[int](), 0
        if self.nodes:
            for k, node in enumerate(self._at):
                ids.setdefault(node, []).append(k)
            inner = {node.parent for node in self.nodes.values()}
            leaves = len(self.nodes.keys() - inner - tops.keys())
        if leaves + sum(tops.values()) > self._limit:
            raise UserError(
                f"A token tree with {leaves + sum(tops.values())} leaves exceeds llama.cpp's limit of {self._limit} here. Use "
                "fewer branches."
            )
        missing = {parent: want - len(ids.get(parent, ())) for parent, want in tops.items()}
        if all(count <= 0 for count in missing.values()):
            return {parent: ids[parent] for parent in tops}
        spare: list[int] = []
        for node, ending in ids.items():
            reserved = tops[node] if node in tops else int(node != ROOT and node not in inner)
            if node != ROOT:
                spare += ending[reserved:]
                del ending[reserved:]
        # Those at the committed tail need no removing, so they go first (off the end).
        root = ids.get(ROOT, [])
        spare += root[tops.get(ROOT, 0) :]
        del root[tops.get(ROOT, 0) :]
        for parent, count in missing.items():
            for _ in range(count):
                k = spare.pop() if spare else self._new()
                self._move(k, parent)
                ids.setdefault(parent, []).append(k)
        if spare and tops:
            # What is left stays where it ends; at a node that grows it rides along.
            for k in spare:
                if self._at[k] in tops:
                    ids[self._at[k]].append(k)
        return {parent: ids[parent] for parent in tops}

    def _new(self) -> int:
        k = len(self._at)
        self._at.append(ROOT)
        if self.length:
            self._memory.copy(0, k, 0, self.length)
        return k

    def _line(self, node: int) -> list[int]:
        out = []
        while node != ROOT:
            out.append(node)
            node = self.nodes[node].parent
        return out

    def _move(self, k: int, target: int) -> None:
        line = self._line(target)
        place = self._at[k]
        while place != ROOT and place not in line:
            self.nodes[place].holders &= ~(1 << k)
            place = self.nodes[place].parent
        if place != self._at[k]:
            self._memory.remove(k, self.position(place) + 1, ANY)
        if place != target:
            source = lowest(self.nodes[target].holders)
            self._memory.copy(source, k, self.position(place) + 1, self.position(target) + 1)
            for node in line:
                if node == place:
                    break
                self.nodes[node].holders |= 1 << k
        self._at[k] = target

    def commit(self, path: Sequence[int], staying: Collection[int]) -> None:
        """Make `path` part of every id's prefix; of the other nodes only those in `staying` stay, which hang below its end."""
        nodes, old = self.nodes, self.length
        new = old + len(path)
        if len(path) == len(nodes) and nodes[path[-1]].holders == self.all:
            # A line that is wholly accepted: the ids are where they belong.
            self.length = new
            self._at = [ROOT] * len(self._at)
            return
        if not staying and any(node.position >= new for node in nodes.values()):
            self._memory.remove(ANY, new, ANY)
        on_path = {node: depth for depth, node in enumerate(path, 1)}
        on_path[ROOT] = 0
        winner = lowest(nodes[path[-1]].holders) if path else 0
        places: dict[int, int] = {}
        for k, end in enumerate(self._at):
            if end not in places:
                place = end
                while place not in on_path and place not in staying:
                    place = nodes[place].parent
                places[end] = place
            place = places[end]
            if place in staying:
                if place != end:
                    self._memory.remove(k, nodes[place].position + 1, ANY)
                    self._at[k] = place
                continue
            begin = old + on_path[place]
            # Without kept nodes everything behind the new prefix is gone already.
            if place != end and (staying or begin < new):
                self._memory.remove(k, begin, ANY)
            if begin < new:
                self._memory.copy(winner, k, begin, new)
            self._at[k] = ROOT
        self.length = new

    def drop(self, freed: set[int]) -> None:
        """Free nodes; `freed` holds the descendants of each of its members."""
        nodes = self.nodes
        if len(freed) == len(nodes):
            self._memory.remove(ANY, self.length, ANY)
            self._at = [ROOT] * len(self._at)
        else:
            for k, end in enumerate(self._at):
                if end not in freed:
                    continue
                while end in freed:
                    end = nodes[end].parent
                self._memory.remove(k, self.position(end) + 1, ANY)
                self._at[k] = end

    def rewind(self, length: int) -> None:
        """Forget every node and all positions from `length` on."""
        if self.nodes or length < self.length:
            self._memory.remove(ANY, length, ANY)
            self._at = [ROOT] * len(self._at)
            self.length = length


def bits(ids: Iterable[int]) -> int:
    """Pack a set of ids into bits."""
    mask = 0
    for k in ids:
        mask |= 1 << k
    return mask


def lowest(mask: int) -> int:
    """Return the lowest id in a set."""
    return (mask & -mask).bit_length() - 1


def members(mask: int) -> list[int]:
    """List the ids in a set, ascending."""
    out = []
    while mask:
        k = lowest(mask)
        out.append(k)
        mask &= mask - 1
    return out
