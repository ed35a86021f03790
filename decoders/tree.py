"""The token tree: a drafter grows it, and one forward pass of the target verifies it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..backends.base import ROOT


@dataclass(frozen=True, slots=True)
class Draws:
    """Children sampled without replacement from a draft's distribution; at temperature 0 its most probable tokens."""

    q: Any
    """The draft's probabilities after the filters, before the first draw; at temperature 0 its softmax (numpy [vocab])."""
    nodes: tuple[int, ...]
    """The children in the order of drawing."""
    then: Draws | None = None
    """Another drafter's draws below the same parent, which took no notice of these. A child may be in both."""

    def placed(self, place: Mapping[int, int]) -> Draws:
        """Renumber the nodes for another tree, without those that have no place in it."""
        return Draws(self.q, tuple(place[node] for node in self.nodes if node in place))

    def behind(self, before: Draws | None) -> Draws:
        """Append these draws to another drafter's."""
        return self if before is None else replace(before, then=self.behind(before.then))


@dataclass(slots=True)
class Tree:
    """A token tree: `tokens[n]` and `parents[n]`. Node 0 is the pending token: already chosen, not yet evaluated."""

    tokens: list[int]
    parents: list[int]
    window: frozenset[int] = frozenset()
    """Nodes that are not guesses of what comes next, such as a lookahead window; not counted as drafted."""
    probs: dict[int, Draws] | None = None
    """Draws of each parent whose children a draft's distribution proposed; other children count as certain (q = 1). Read by
    `soft` acceptance and by `rejection` above temperature 0."""
    apart: bool = False
    """Whether what was drawn on one path is independent of the other paths, so that `rejection` may test whole paths. True for
    chains."""
    pre_evaluated: int = 0
    """The first nodes, if any, that the drafter has evaluated already with some of the target's layers. In the session they
    have the same numbers, and the verifying pass completes them."""
    ahead: int = 0
    """Number of tokens drafted ahead while this tree was verified; set once the verdict is known."""
    wasted: int = 0
    """Number of tokens drafted ahead, now or before, that this verdict threw away."""
    via: str = ""
    """The method that drafted it, if the current one delegates to others (`auto`)."""
    drafters: tuple[str, ...] = ()
    """Names of the drafters that grew it together; empty if the method drafted alone."""
    sources: list[int] = field(default_factory=list)
    """Bits of each node, where there are `drafters`: bit i is set if `drafters[i]` guessed it; 0 for node 0."""
    certain: frozenset[int] = frozenset()
    """Grammar-forced nodes; not counted as drafted either."""
    keeps: bool = False
    """Whether wrong guesses are worth a pass as well, because the method works on them (Jacobi): a constraint removes none."""
    origin: Tree | None = None
    """The tree that it was cut from; None if it is as it was drafted."""
    places: Sequence[int] = ()
    """Number of each node in `origin`."""
    reached: list[float] = field(default_factory=list, compare=False)
    """The probability of each node's path as the drafter sees it [n], by which the tree is cut to the size that pays; empty
    to verify it as it is."""
    shares: tuple[float, ...] = ()
    """Shares of the nodes that the draft models, the first of `drafters`, had learned to get. They sum to 1."""

    @classmethod
    def root(cls, pending: int) -> Tree:
        """Make a tree of the pending token alone: plain decoding."""
        return cls([pending], [ROOT])

    @classmethod
    def chain(cls, pending: int, draft: Sequence[int]) -> Tree:
        """Make a chain of draft tokens behind the pending token."""
        return cls([pending, *draft], list(range(ROOT, len(draft))), apart=True)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """Number of nodes that are guesses of what comes next."""
        return len(self.tokens) - 1 - len(self.window | self.certain)

    def accepted(self, path: Sequence[int]) -> int:
        """Count the nodes of an accepted path that were guesses of what comes next."""
        not_drafted = self.window | self.certain
        return sum(node not in not_drafted for node in path[1:]) if not_drafted else len(path) - 1

    def as_drafted(self, path: Sequence[int]) -> tuple[Tree, list[int]]:
        """Return the tree that the drafter made, and a path of this one as numbered there."""
        return (self, list(path)) if self.origin is None else (self.origin, [self.places[node] for node in path])

    def record(self, path: Sequence[int]) -> dict[str, Any]:
        """Return the tree in the fields of a `StepRecord`; none of them if no node is a guess."""
        if not path or not self.drafted:
            return {}
        shares = tuple(round(share, 4) for share in self.shares)
        nodes = {"tree_tokens": self.tokens, "tree_parents": self.parents, "path": tuple(path)}
        return nodes | {"drafters": self.drafters, "sources": self.sources, "shares": shares}

    def draws(self, parent: int) -> list[Draws]:
        """List the draws below a node, one drafter's after the other's."""
        out = []
        draws = (self.probs or {}).get(parent)
        while draws is not None:
            out.append(draws)
            draws = draws.then
        return out

    def add(self, token: int, parent: int) -> int:
        """Add a node below `parent` and return its index."""
        self.tokens.append(token)
        self.parents.append(parent)
        return len(self.tokens) - 1

    def depths(self) -> list[int]:
        """List the depth of each node; the pending token has depth 0."""
        out: list[int] = []
        for parent in self.parents:
            out.append(0 if parent == ROOT else out[parent] + 1)
        return out

    def path(self, node: int) -> list[int]:
        """List the nodes from the pending token down to `node`."""
        out = []
        while node != ROOT:
            out.append(node)
            node = self.parents[node]
        return out[::-1]

    def children(self) -> dict[int, list[int]]:
        """Map each node that has children to them."""
        out: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents[1:], 1):
            out.setdefault(parent, []).append(node)
        return out

    def lookup(self) -> dict[tuple[int, int], int]:
        """Map each parent and token to the node."""
        return {key: node for node, key in enumerate(zip(self.parents, self.tokens, strict=True))}

    def child(self, parent: int, token: int) -> int | None:
        """Find the first child of a node that carries a token."""
        nodes = range(parent + 1, len(self.tokens))
        return next((node for node in nodes if self.parents[node] == parent and self.tokens[node] == token), None)

    def descend(self, tokens: Sequence[int]) -> list[int]:
        """Follow tokens down from node 0; return the nodes passed, node 0 first."""
        path = [0]
        for token in tokens:
            if (child := self.child(path[-1], token)) is None:
                break
            path.append(child)
        return path

    def fitted(self, most: int, branches: int | None, vocabulary: int | None) -> Tree:
        """Cut the tree to what a target can evaluate: earlier nodes first, whole paths rather than more of them.

        Args:
            most: nodes.
            branches: the most leaves; None for any number.
            vocabulary: number of token ids; None for any number.
        """
        parents, most = self.parents, min(most, len(self))
        readable = vocabulary is None or max(self.tokens) < vocabulary
        if most == len(self) and readable and (branches is None or len(self) - len({*parents}) < branches):
            return self
        nodes: list[int] = []
        inner = set[int]()
        leaves = 1
        place = {ROOT}
        for node, (token, parent) in enumerate(zip(self.tokens, parents, strict=True)):
            new_leaf = parent in inner
            readable = vocabulary is None or token < vocabulary or not node
            if parent in place and readable and len(nodes) < most and (branches is None or leaves + new_leaf <= branches):
                leaves += new_leaf
                inner.add(parent)
                place.add(node)
                nodes.append(node)
        return self.only(nodes)

    def only(self, nodes: Sequence[int]) -> Tree:
        """Keep some of the nodes, rising, each with its parent.

        Draws are left out: without them every guess counts as certain, which is as right. Nodes stay pre-evaluated if those of
        them that remain are the first ones.
        """
        place = {ROOT: ROOT} | {node: i for i, node in enumerate(nodes)}
        early = [node for node in nodes if node < self.pre_evaluated]
        return replace(
            self,
            tokens=[self.tokens[node] for node in nodes],
            parents=[place[self.parents[node]] for node in nodes],
            window=frozenset(place[node] for node in self.window if node in place),
            certain=frozenset(place[node] for node in self.certain if node in place),
            probs=None,
            pre_evaluated=len(early) if early == list(range(len(early))) else 0,
            origin=self.origin or self,
            places=[self.places[node] for node in nodes] if self.origin is not None else list(nodes),
            sources=[self.sources[node] for node in nodes] if self.sources else [],
            reached=[self.reached[node] for node in nodes] if self.reached else [],
        )

    def outside(self, top: int) -> list[int]:
        """List the nodes that do not hang below `top`."""
        below, out = {top}, list[int]()
        for node, parent in enumerate(self.parents):
            if parent in below:
                below.add(node)
            else:
                out.append(node)
        return out
