"""The base class of sessions over a token tree, shared by the runtimes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...errors import ContextFull
from ..base import ROOT, Session


@dataclass(slots=True)
class Node:
    """A tentative token in the cache."""

    token: int
    parent: int
    position: int
    straight: bool
    """Whether it and its ancestors were evaluated in the same places as in plain decoding, so that they have the same bits."""


N = TypeVar("N", bound=Node)


class TreeSession(Session, Generic[N]):
    """A session that keeps the committed text and the living nodes, and checks its arguments. A runtime adds the passes,
    and the effects of a commit, a drop and a rewind on its cache. These run before the nodes and the text change, so a
    failing cache leaves the session as it was.

    Args:
        context: most tokens, committed and tentative together.
    """

    def __init__(self, context: int) -> None:
        self.context = context
        self.tokens: list[int] = []
        self._nodes: dict[int, N] = {}
        """The living nodes by id, parents first."""
        self._next = 0
        """The id of the next node."""

    def _check(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        """Check that new nodes form a tree below living ones and fit in the context."""
        if len(tokens) != len(parents):
            raise ValueError(f"{len(tokens)} tokens with {len(parents)} parents")
        living, first = self._nodes, self._next
        for number, parent in enumerate(parents, first):
            if parent != ROOT and parent not in living and not first <= parent < number:
                raise ValueError(f"parent {parent} is not alive")
        if (used := len(self.tokens) + len(living)) + len(tokens) > self.context:
            raise ContextFull(
                f"{len(self.tokens):,} tokens and {used - len(self.tokens) + len(tokens):,} tentative ones do not fit in the "
                f"context of {self.context:,}. Start a new chat, or load the model with a larger context."
            )

    def _rows(self, count: int, rows: Sequence[int] | None) -> Sequence[int]:
        """Check the rows requested from a pass over `count` new nodes, and return them; all of them for None."""
        end = self._next + count
        if rows is not None and any(not self._next <= row < end for row in rows):
            raise ValueError(f"rows {list(rows)} are not all of this pass's nodes {self._next} to {end - 1}")
        return range(self._next, end) if rows is None else rows

    def _add(self, new: Sequence[N]) -> None:
        """Add new nodes whose pass succeeded."""
        self._nodes.update(enumerate(new, self._next))
        self._next += len(new)
        self.nodes_evaluated += len(new)

    def exact(self, path: Sequence[int]) -> int:
        nodes = self._nodes
        return next((i for i, number in enumerate(path) if not nodes[number].straight), len(path))

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        """Make `path` the committed tail (see `Session.commit`). A node to keep is dropped if its parent is, as it attends to
        it."""
        nodes, tail = self._nodes, ROOT
        for number in path:
            node = nodes.get(number)
            if node is None or node.parent != tail:
                raise ValueError(f"{list(path)} is not a chain of living nodes from the committed tail")
            tail = number
        living: dict[int, N] = {}
        for number in sorted(set(keep).difference(path)) if keep else ():
            node = nodes.get(number)
            if node is not None and (node.parent == tail or node.parent in living):
                living[number] = node
        self._note(path)
        self._settle(path, living)
        self.tokens += [nodes[number].token for number in path]
        nodes.clear()
        nodes.update(living)
        for node in living.values():
            if node.parent == tail:
                node.parent = ROOT
        if not living:
            self._next = 0

    def drop(self, nodes: Iterable[int]) -> None:
        living = self._nodes
        dropped = {number for number in nodes if number in living}
        if not dropped:
            return
        for number, node in living.items():
            if node.parent in dropped:
                dropped.add(number)
        self._free(dropped)
        for number in dropped:
            del living[number]
        self._next = max(living, default=ROOT) + 1

    def rewind(self, length: int) -> None:
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot rewind to {length} of {len(self.tokens)} tokens")
        self._cut(length)
        del self.tokens[length:]
        self._note((), length)
        self._nodes.clear()
        self._next = 0

    @abstractmethod
    def _settle(self, path: Sequence[int], living: dict[int, N]) -> None:
        """Add a path to the text in the cache; of the other nodes only `living` stay in it."""

    @abstractmethod
    def _free(self, dropped: set[int]) -> None:
        """Free nodes in the cache, none of which has a child that stays."""

    @abstractmethod
    def _cut(self, length: int) -> None:
        """Free every node in the cache, and the text after the first `length` tokens."""
