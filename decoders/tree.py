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
        """As far as the nodes have a place in another tree."""
        return Draws(self.q, tuple(place[node] for node in self.nodes if node in place))

    def behind(self, before: Draws | None) -> Draws:
        """These at the end of others."""
        return self if before is None else replace(before, then=self.behind(before.then))


@dataclass(slots=True)
class Tree:
    """A token tree: `tokens[n]` and `parents[n]`. Node 0 is the pending token: already chosen, not yet evaluated."""

    tokens: list[int]
    parents: list[int]
    window: frozenset[int] = frozenset()
    """Nodes that are not guesses of what comes next, such as a lookahead window; not counted as drafted."""
    probs: dict[int, Draws] | None = None
    """By parent, where a draft's distribution proposed children. All others count as drafted with certainty (q = 1). `soft`
    acceptance reads it, and `rejection` above temperature 0."""
    apart: bool = False
    """What was drawn on one path tells nothing of what was drawn on another, nor whether there is a node: then `rejection` may
    test whole paths. True for chains."""
    pre_evaluated: int = 0
    """The first nodes, if any, that the drafter has evaluated already, with some of the target's layers: in the session they
    have the same numbers, and the verifying pass completes them."""
    ahead: int = 0
    """How many tokens the drafter drafted on while this tree was verified; set once the verdict is known."""
    wasted: int = 0
    """How many tokens drafted on, now or before, this verdict threw away."""
    via: str = ""
    """The method that drafted it, if the current one delegates to others (`auto`)."""
    drafters: tuple[str, ...] = ()
    """Names of the drafters that grew it together; empty if the method drafted alone."""
    sources: list[int] = field(default_factory=list)
    """By node, where there are `drafters`: bit i is set if `drafters[i]` guessed it; 0 for node 0."""
    certain: frozenset[int] = frozenset()
    """Nodes that a constraint leaves no choice about; not counted as drafted either."""
    keeps: bool = False
    """Wrong guesses are worth a pass as well, because the method works on them (Jacobi): a constraint removes none."""
    origin: Tree | None = None
    """The tree that it was cut from; None if it is as it was drafted."""
    places: Sequence[int] = ()
    """By node, its number in `origin`."""
    reached: list[float] = field(default_factory=list, compare=False)
    """The probability of each node's path as the drafter sees it [n], by which the tree is cut to the size that pays; empty
    where it is to be verified as it is."""
    shares: tuple[float, ...] = ()
    """What part of the nodes each of the first of `drafters`, the draft models, had learned to get. They sum to 1."""

    @classmethod
    def root(cls, pending: int) -> Tree:
        """A tree with only the pending token: plain decoding."""
        return cls([pending], [ROOT])

    @classmethod
    def chain(cls, pending: int, draft: Sequence[int]) -> Tree:
        """The pending token followed by one chain of draft tokens."""
        return cls([pending, *draft], list(range(ROOT, len(draft))), apart=True)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """How many nodes are guesses of what comes next."""
        return len(self.tokens) - 1 - len(self.window | self.certain)

    def accepted(self, path: Sequence[int]) -> int:
        """How many nodes of an accepted path were guesses of what comes next."""
        others = self.window | self.certain
        return sum(node not in others for node in path[1:]) if others else len(path) - 1

    def as_drafted(self, path: Sequence[int]) -> tuple[Tree, list[int]]:
        """The tree that the drafter made, and a path of this one as numbered there."""
        return (self, list(path)) if self.origin is None else (self.origin, [self.places[node] for node in path])

    def record(self, path: Sequence[int]) -> dict[str, Any]:
        """The tree in the fields of a `StepRecord`; nothing of it if no node is a guess."""
        if not path or not self.drafted:
            return {}
        shares = tuple(round(share, 4) for share in self.shares)
        drawn = {"tree_tokens": self.tokens, "tree_parents": self.parents, "path": tuple(path)}
        return drawn | {"drafters": self.drafters, "sources": self.sources, "shares": shares}

    def draws(self, parent: int) -> list[Draws]:
        """The draws below a node, of one drafter after the other."""
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
        """The depth of each node; the pending token has depth 0."""
        out: list[int] = []
        for parent in self.parents:
            out.append(0 if parent == ROOT else out[parent] + 1)
        return out

    def path(self, node: int) -> list[int]:
        """Node indices from the pending token down to `node`."""
        out = []
        while node != ROOT:
            out.append(node)
            node = self.parents[node]
        return out[::-1]

    def fitted(self, most: int, branches: int | None, vocabulary: int | None) -> Tree:
        """The tree, or as much of it as a target can evaluate: what comes first, with whole paths rather than more of them.

        Args:
            most: nodes.
            branches: the most leaves; None for any number.
            vocabulary: how many token ids there are; None for any number.
        """
        parents, most = self.parents, min(most, len(self))
        ids = vocabulary is None or max(self.tokens) < vocabulary
        if most == len(self) and ids and (branches is None or len(self) - len({*parents}) < branches):
            return self
        kept, inner, leaves = list[int](), set[int](), 1
        place = {ROOT}
        for node, (token, parent) in enumerate(zip(self.tokens, parents, strict=True)):
            more = parent in inner
            known = vocabulary is None or token < vocabulary or not node
            if parent in place and known and len(kept) < most and (branches is None or leaves + more <= branches):
                leaves += more
                inner.add(parent)
                place.add(node)
                kept.append(node)
        return self.only(kept)

    def only(self, nodes: Sequence[int]) -> Tree:
        """The tree of some of its nodes, rising, each with its parent. Draws are left out: without them every guess counts as
        certain, which is as right. Nodes stay pre-evaluated if those that are left of them are the first ones."""
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
        """The nodes that do not hang below `top`."""
        below, out = {top}, list[int]()
        for node, parent in enumerate(self.parents):
            if parent in below:
                below.add(node)
            else:
                out.append(node)
        return out
