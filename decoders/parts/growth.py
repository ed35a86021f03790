"""Token trees that grow level by level from a proposer's guesses.

The shape follows the proposer's own confidence, as Li et al., "EAGLE-2: Faster Inference of Language Models with Dynamic Draft
Trees" (2024), arXiv:2406.16858, have it: the most probable nodes of a level are expanded, and of all nodes the most probable
ones are kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest
from itertools import count
from math import ceil
from typing import Any

from ...backends.base import ROOT
from ..base import Context, Drafter, Verified
from ..tree import Draws, Tree
from .drafting import COUPLED, node_budget, weighs_draft
from .proposers import Guesses, Proposer

MOST = 256
"""Most nodes of a tree."""

ROUNDS = 32
"""Rounds of several draft models after which an older one counts for a third."""

EXPANDED = 1.75
"""Least probability of a path that is extended, in floors: a pass of the drafter costs more than a node of the target's."""


class Shares:
    """Shares of several draft models in the nodes of the tree that they grow together.

    A model's worth is the accepted tokens that the other models had not guessed, summed over the last rounds. Its share is its
    worth over that of all, one token added to each (Laplace's rule of succession), so that no share is ever 0. A model that is
    owed too few nodes for a chain sits the round out, which saves its passes, and keeps its nodes for a later round.
    """

    def __init__(self, count: int) -> None:
        self._worth = [0.0] * count
        self._owed = [0.0] * count

    def __len__(self) -> int:
        return len(self._worth)

    def fractions(self) -> list[float]:
        """Compute the share of each model; they sum to 1."""
        total = sum(self._worth) + len(self)
        return [(1 + worth) / total for worth in self._worth]

    def allot(self, nodes: int, chain: int) -> list[int]:
        """Divide the nodes of one round, before the models guess, as rejection sampling needs.

        Args:
            nodes: draft nodes of the tree.
            chain: nodes of the shortest draft worth a model's passes.

        Returns:
            draft nodes for each model, 0 for one that sits this round out. They sum to `nodes`.
        """
        shares = self.fractions()
        self._owed = [owed + share * nodes for owed, share in zip(self._owed, shares, strict=True)]
        out, left, least = [0] * len(self), nodes, min(chain, nodes // len(self))
        if not least:  # fewer nodes than models
            return [nodes, *out[1:]]
        first = max(range(len(self)), key=lambda i: shares[i])
        for i in sorted(set(range(len(self))) - {first}, key=lambda i: -self._owed[i]):
            most = min(int(self._owed[i]), left - least)
            if most >= least:
                out[i] = most
                self._owed[i] -= most
                left -= most
        out[first] = left
        self._owed[first] = 0.0
        return out

    def learn(self, lengths: Sequence[int | None]) -> None:
        """Learn from a round: the number of accepted tokens that each model had guessed; None for one that sat it out."""
        guessed = [length for length in lengths if length is not None]
        if len(guessed) < 2:
            return
        best = max(guessed)
        # Of two models that guess the same each could replace the other: they divide their lead over the rest.
        lead = best - max((length for length in guessed if length < best), default=best)
        for i, length in enumerate(lengths):
            if length is not None:
                self._worth[i] += (lead / guessed.count(best) if length == best else 0.0) - self._worth[i] / ROUNDS


@dataclass(slots=True)
class Growth:
    """A tree under construction: its nodes in the order in which the proposer evaluates them."""

    tree: Tree
    reached: list[float] = field(default_factory=lambda: [1.0])
    """For each node, the probability of its path, as the draft sees it [n]."""
    evaluated: dict[int, int] = field(default_factory=dict)
    """Tree node → its number with the proposer."""
    place: dict[int, int] = field(default_factory=lambda: {0: 0})
    """Tree node → its node in the tree of several models, if it is in its model's share."""

    def add(self, token: int, parent: int, reached: float) -> int:
        """Add a node."""
        self.reached.append(reached)
        return self.tree.add(token, parent)


class Grower(Drafter):
    """A drafter of a proposer's most probable tree, or of several proposers' trees in one.

    Under an acceptance rule that samples, children are drawn without replacement from the draft's distribution, which travels
    with the tree, and its shape is known before anything is drawn. Where the target verifies chains only, it drafts the chain
    of first guesses.

    Its `Params` have `nodes`, `depth`, `width` and `grow`.
    """

    reads_cache = False
    params: Any

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self._tree: Tree | None = None
        self._growths: dict[str, Growth] = {}
        """This round's growths, by the proposer's name."""
        self._proposers: Mapping[str, Proposer] = {}
        self._shares: dict[tuple[str, ...], Shares] = {}
        """The proposers' shares, by their names."""

    @abstractmethod
    def _open(self, context: Context) -> Mapping[str, Proposer]:
        """Return the proposers by name, usually one.

        Raises:
            UserError: one cannot draft for this target.
        """

    def _floor(self, context: Context) -> float:
        """Return the least probability of a path, as the draft sees it."""
        return self.sizes.floor(context)

    def draft(self, context: Context) -> Tree:
        self._growths = {}
        self._tree = None
        budget = node_budget(context, min(MOST, self.params.nodes))
        if context.max_depth < 1 or budget < 2:
            return Tree.root(context.pending)
        self._proposers = self._open(context)
        if len(self._proposers) > 1:
            tree = self._grow_together(context, budget)
            tree.apart = False  # the draws of one model decide where those of the other hang
        else:
            ((name, proposer),) = self._proposers.items()
            tree = Tree.root(context.pending)
            growth = self._growths[name] = Growth(tree)
            self._grow(proposer, context, growth, budget)
            if not self._sampled(context):
                _prune(growth, budget)
                tree.reached = growth.reached if getattr(self.params, "floor", -1.0) < 0 else []
        self._tree = tree
        return tree

    def _most_levels(self) -> int:
        depth: int = self.params.depth
        return depth

    def _extended(self, growth: Growth, level: Sequence[int], budget: int, floor: float) -> list[int]:
        """Choose the nodes of the last level that get successors. The level begins with the end of the chain of first guesses;
        `budget` is the most nodes of the tree once it is pruned."""
        return [node for node in level if growth.reached[node] >= EXPANDED * floor]

    @staticmethod
    def _sampled(context: Context) -> bool:
        """Return whether guesses are drawn, and tested against the distribution that they were drawn from."""
        return not context.sampling.greedy and context.acceptance.rule in ("rejection", "soft")

    def _grow_together(self, context: Context, budget: int) -> Tree:
        """Grow the trees of several proposers into one, each with its share of the nodes."""
        names = tuple(self._proposers)
        shares = self._shares.setdefault(names, Shares(len(names)))
        nodes = dict(zip(names, shares.allot(budget - 1, min(self.params.depth, context.max_depth)), strict=True))
        for name, share in nodes.items():
            if share:
                growth = self._growths[name] = Growth(Tree.root(context.pending))
                self._grow(self._proposers[name], context, growth, 1 + share, share / (budget - 1))
        tree = Tree.root(context.pending)
        tree.drafters = names
        tree.sources = [0]
        tree.shares = tuple(shares.fractions())
        free = not self._sampled(context)
        first = sorted(self._growths, key=lambda name: -nodes[name])
        for name in first:
            _hand_in(tree, self._growths[name], 1 << names.index(name), nodes[name], free=free)
        for name in first if free else ():  # nodes that the others did not use
            _hand_in(tree, self._growths[name], 1 << names.index(name), budget - len(tree), free=free)
        return tree

    def _grow(self, proposer: Proposer, context: Context, growth: Growth, budget: int, part: float = 1.0) -> None:
        """Grow level by level: guesses for some nodes of a level become the next one.

        Args:
            proposer: makes the guesses.
            context: of the step.
            growth: a tree of the pending token alone.
            budget: most nodes, where the tree is not pruned later.
            part: this proposer's share of all nodes. A tree that is not pruned is narrower by it, not shallower.
        """
        params, most = self.params, self.params.grow if context.branching else 1
        widths = ([params.width if context.branching else 1] * self._most_levels())[: context.max_depth]
        if self._sampled(context):
            narrowed = [ceil(width * part) for width in widths]
            self._draw(proposer, context, growth, slots(budget, narrowed, ceil(most * part)))
            return
        floor = self._floor(context)
        level = [0]
        for width in widths:
            if not level:
                break
            # The chain of first guesses is always extended, so that it is never better than the tree.
            first = level[0]
            level = nlargest(most, level, key=lambda node: growth.reached[node])
            level = [first, *(node for node in level if node != first)][:most]
            level = self._extended(growth, level, budget, floor)
            if not level:
                break
            guesses = self._guess(proposer, context, growth, level, width)
            level = self._hang(context, growth, guesses, proposer, floor)

    def _draw(self, proposer: Proposer, context: Context, growth: Growth, shape: Sequence[Mapping[int, Sequence[int]]]) -> None:
        """Fill the slots of a tree, level by level. The token drawn for one decides only on the slots below it."""
        tree, nodes, eos = growth.tree, {0: 0}, context.eos_ids
        for level in shape:
            open_slots = [slot for slot in level if slot in nodes and (not slot or tree.tokens[nodes[slot]] not in eos)]
            if not open_slots:
                break
            width = max(len(below) for below in level.values())
            guesses = dict(self._guess(proposer, context, growth, [nodes[slot] for slot in open_slots], width))
            for slot in open_slots:
                parent, children = nodes[slot], []
                for below, (token, probability) in zip(level[slot], guesses.get(parent, ()), strict=False):
                    nodes[below] = growth.add(token, parent, probability)
                    children.append(nodes[below])
                if children:
                    draws = Draws(proposer.distribution(growth.evaluated[parent]), tuple(children))
                    tree.probs = (tree.probs or {}) | {parent: draws}

    def _guess(
        self, proposer: Proposer, context: Context, growth: Growth, level: Sequence[int], width: int
    ) -> list[tuple[int, Guesses]]:
        """List (node, guesses) for the nodes of a level that could be evaluated."""
        tree, evaluated = growth.tree, growth.evaluated
        if level[0] == 0:
            guesses = proposer.begin(context, width)
        else:
            guesses = proposer.grow(
                [tree.tokens[node] for node in level], [evaluated[tree.parents[node]] for node in level], width
            )
        guessed = [(node, candidates) for node, candidates in zip(level, guesses, strict=True) if candidates]
        for node, _ in guessed:
            evaluated[node] = len(evaluated)
        return guessed

    def _hang(
        self, context: Context, growth: Growth, guesses: Sequence[tuple[int, Guesses]], proposer: Proposer, floor: float
    ) -> list[int]:
        """Add the guesses to the tree; return the nodes that may be expanded next."""
        tree, greedy = growth.tree, context.sampling.greedy
        drawn: dict[int, Draws] = {}
        expandable = []
        for parent, candidates in guesses:
            children = []
            for rank, (token, probability) in enumerate(candidates):
                # Where the noise is shared, the order of drawing says more than the probabilities.
                likely = probability if greedy else COUPLED[min(rank, len(COUPLED) - 1)]
                reached = growth.reached[parent] * likely
                if reached < floor and len(tree) > 1:  # the very first guess is always tried: its pass is paid for
                    continue
                children.append(growth.add(token, parent, reached))
                if token not in context.eos_ids:
                    expandable.append(children[-1])
            if children and weighs_draft(context):
                drawn[parent] = Draws(proposer.distribution(growth.evaluated[parent]), tuple(children))
        if drawn:
            tree.probs = (tree.probs or {}) | drawn
        return expandable

    def learn(self, verified: Verified) -> None:
        tree, growths = verified.tree, self._growths
        if tree.as_drafted(())[0] is self._tree:
            tokens = [tree.tokens[node] for node in verified.path[1:]]
            for name, growth in growths.items():
                path = growth.tree.descend(tokens)
                self._proposers[name].settle([growth.evaluated[node] for node in path if node in growth.evaluated])
            names = tuple(self._proposers)
            if len(growths) > 1 and names in self._shares:
                guessed = {name: sum(tree.sources[node] >> i & 1 for node in verified.path) for i, name in enumerate(names)}
                self._shares[names].learn([guessed[name] if name in growths else None for name in names])

    @property
    def note(self) -> str:
        # Of this round's proposers only: others, as at the end of an answer, have their notes from another round.
        return " ".join(note for name in self._growths if (note := self._proposers[name].note))

    def close(self) -> None:
        for proposer in self._proposers.values():
            proposer.close()
        self._proposers = {}
        self._growths = {}
        self._tree = None


def slots(budget: int, widths: Sequence[int], most: int) -> list[dict[int, list[int]]]:
    """Shape a tree whose tokens are drawn: by depth the slots that are expanded, each with those below it. Slot 0 is the
    pending token. The worth of a slot follows from the ranks on its path alone.

    Args:
        budget: most slots.
        widths: most successors of a slot, by depth.
        most: slots expanded at each depth.
    """
    levels: list[dict[int, list[int]]] = [{} for _ in widths]
    waiting: list[tuple[float, int, int, int, int, float]] = []
    order, slot = count(), 0

    def wait(parent: int, depth: int, rank: int, reached: float) -> None:
        if depth < len(widths) and rank < widths[depth]:
            worth = reached * COUPLED[min(rank, len(COUPLED) - 1)]
            heappush(waiting, (-worth, next(order), parent, depth, rank, reached))

    wait(0, 0, 0, 1.0)
    while waiting and slot < budget - 1:
        _, _, parent, depth, rank, reached = heappop(waiting)
        if parent not in levels[depth] and len(levels[depth]) >= most:
            continue
        slot += 1
        levels[depth].setdefault(parent, []).append(slot)
        wait(parent, depth, rank + 1, reached)
        wait(slot, depth + 1, 0, reached * COUPLED[min(rank, len(COUPLED) - 1)])
    return levels


def _ranked(growth: Growth) -> list[int]:
    """Rank the nodes: the chain of first guesses, then the most probable ones first. No node comes before its parent: a path is
    never more probable than its start, and of equals the earlier comes first."""
    parents, first, continued = growth.tree.parents, {0}, set[int]()
    for node, parent in enumerate(parents[1:], 1):
        # Of each node's children the first comes first.
        if parent in first and parent not in continued:
            first.add(node)
            continued.add(parent)
    return sorted(range(len(parents)), key=lambda node: (node not in first, -growth.reached[node], node))


def _prune(growth: Growth, budget: int) -> None:
    """Leave the `budget` most probable nodes, the chain of first guesses among them."""
    tree, reached = growth.tree, growth.reached
    if len(tree) <= budget:
        return
    nodes = sorted(_ranked(growth)[:budget])
    place = {node: i for i, node in enumerate(nodes)}
    tree.tokens[:] = [tree.tokens[node] for node in nodes]
    tree.parents[:] = [place.get(tree.parents[node], ROOT) for node in nodes]
    growth.reached = [reached[node] for node in nodes]
    growth.evaluated = {place[node]: number for node, number in growth.evaluated.items() if node in place}
    if tree.probs is not None:
        placed = {place[node]: draws.placed(place) for node, draws in tree.probs.items() if node in place}
        tree.probs = {node: draws for node, draws in placed.items() if draws.nodes}


def _hand_in(tree: Tree, growth: Growth, bit: int, most: int, *, free: bool) -> None:
    """Put one model's nodes into the tree of several, the best first, until it has added `most`.

    Args:
        tree: of all models.
        growth: of the one.
        bit: its bit in `Tree.sources`.
        most: nodes that it may add.
        free: nodes that are there already do not count. Where nodes are drawn they do: else the draw of one model would decide
            how many draws another one has.
    """
    part, place, new = growth.tree, growth.place, dict[int, int]()
    children = tree.lookup()
    for node in _ranked(growth) if free else range(len(part)):
        if node in place:
            continue
        if most < 1 or part.parents[node] not in place:
            break
        key = place[part.parents[node]], part.tokens[node]
        if key not in children:
            children[key] = tree.add(part.tokens[node], key[0])
            tree.sources.append(0)
            most -= 1
        elif not free:
            most -= 1
        place[node] = new[node] = children[key]
        tree.sources[place[node]] |= bit
    for parent, draws in (part.probs or {}).items():
        tree.probs = tree.probs or {}
        if (placed := draws.placed(new)).nodes:
            tree.probs[place[parent]] = placed.behind(tree.probs.get(place[parent]))
