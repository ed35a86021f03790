"""Fusion and prompt lookup as `auto` asks them: trees as far as their nodes pay, and no more work than may pay.

Both read the text and run no model, and both tell before the pass how probable each node of their tree is, so that the best
number of nodes is known for every single step; one node is plain decoding.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from ...base import Context, Verified
from ...parts.learned import Calibration
from ...parts.ngram_index import ORDERS
from ...tree import Tree
from ..fusion import Fusion
from ..lookup import Lookup
from .experience import Experience

MARGIN = 1.03
"""A tree must be expected to go this much faster than plain decoding to be made: estimates err."""

FIRST = 0.85
"""Prompt lookup grows no tree where the first token of the longest match is less probable than this share of what a tree of two
nodes would need: a longer one may need less of each. To look takes a tenth of what growing one does."""

LONGEST_NAP = 8
"""After a step in which no draft would have paid, steps without growing a tree at all: 1, 2, 4 … as long as nothing pays.
Growing a tree costs a few per cent of a small model's pass; a longer nap would miss the start of a copy. With prompt lookup it
is always the longest, for that tells at every step whether to wake."""

WAKING = 3
"""Tokens that must have stood together before to end a nap of fusion's: a copy may begin there."""

BUSHY = 4
"""Nodes from which what a tree took to grow tells what such trees take."""

REMEASURE = 48
"""Steps after which a tree that promises much is verified against all figures: a machine that was busy when passes over many
nodes were measured may be idle now, and only such a pass tells."""

PROMISING = 3.0
"""Tokens that such a tree must be expected to yield."""

USUAL = 8
"""Its nodes."""

SUREST = 0.97
"""No token is taken to be surer than this after another: a copy may be changed or end anywhere, and a longer tree gains less
than it risks."""

LESSONS = 13
"""Nodes of a tree from which it is learned what probabilities are worth; more of a long copy would tell the same again."""

FLOOR = {"fusion": 0.5, "lookup": 0.8}
"""Probability below which no node is grown, as a share of what a node adds to a pass: what fusion thinks too little of gets a
chance."""

HIGHEST_FLOOR = 0.3


class Readers:
    """One conversation's two readers, which of them drafts, and when neither need be asked."""

    def __init__(self) -> None:
        self._fusion = Fusion()
        self._lookup = Lookup()
        self.reader: Fusion | Lookup = self._fusion
        """Which of the two the last tree is of."""
        self._idle, self._nap = 0, 1
        self._sleeper: Fusion | Lookup = self._fusion
        """Whose tree did not pay when the nap began."""
        self._needed = 0.0
        """Probability of prompt lookup's first token from which a tree is grown."""
        self._growing = 0.0
        """Seconds that the last tree took to grow."""

    def napping(self, tokens: Sequence[int]) -> bool:
        """Whether no tree need be grown in this step, for none would pay. Asked once a step; takes next to no time."""
        if self._idle:
            self._idle = 0 if self._wakes(tokens) else self._idle - 1
            return self._idle > 0
        return False

    def _wakes(self, tokens: Sequence[int]) -> bool:
        """Whether a copy may begin here."""
        if self._sleeper is self._fusion:
            return self._fusion.repeats(tokens, WAKING)
        match = self._lookup.match(tokens)
        return match == ORDERS or (match > 0 and self._lookup.chance(match) >= self._needed)

    def grow(self, context: Context, known: Experience, nodes: int, leaving: bool, beat: float) -> tuple[Tree, float]:
        """A tree as far as its nodes pay.

        Args:
            context: the text.
            known: what passes take and probabilities are worth.
            nodes: most nodes.
            leaving: the last pass was over one node, so that going back to those afterwards costs something.
            beat: tokens per second without a tree, where those are a rival's; 0 for plain decoding's.

        Returns:
            the tree, of one node where no larger one pays, and the tokens per second expected of the best one of several
            nodes; 0 for none.
        """
        # Beside a rival only a copy counts, which prompt lookup sees as well.
        reader = self.reader = self._lookup if known.dear or beat else self._fusion
        self._tune(known, nodes)
        begun = time.perf_counter()
        tree = reader.draft(context)
        self._growing = time.perf_counter() - begun
        if len(tree) >= BUSHY and reader is self._fusion:
            known.grew(self._growing)
        best, speed = self._best(known, tree, leaving)
        if best == 1 and not beat and known.steps - known.verified >= REMEASURE and sum(reader.probabilities) >= PROMISING:
            best, speed = min(len(tree), USUAL), 1 / known.costs.seconds(1)
        if best > 1 and speed > beat:
            known.verified = known.steps
            del tree.tokens[best:], tree.parents[best:], reader.probabilities[best:]
            tree.via = reader.name
            self._idle, self._nap = 0, 1
        else:
            tree = Tree.root(context.pending)
            if not beat:
                self._rest(known)
        return tree, speed if best > 1 else 0.0

    def _tune(self, known: Experience, nodes: int) -> None:
        """Let no more nodes be grown than may pay."""
        reader, one = self.reader, known.costs.seconds(1)
        more = max(0.0, known.costs.seconds(16) - one) / (15 * one) if one else 0.0
        floor = min(HIGHEST_FLOOR, FLOOR[reader.name] * more)
        if reader.params.nodes != nodes or abs(reader.params.floor - floor) > 0.3 * floor:
            reader.params = replace(reader.params, nodes=nodes, floor=floor)

    def _rest(self, known: Experience) -> None:
        """No tree paid: the next steps may do without one."""
        self._sleeper = self.reader
        if self.reader is self._fusion:
            self._idle, self._nap = self._nap + 1, min(2 * self._nap, LONGEST_NAP)
            return
        self._idle = LONGEST_NAP + 1
        if one := known.costs.seconds(1):
            two = known.costs.seconds(2) + known.growing["lookup"].median
            self._needed = FIRST * max(0.0, MARGIN * (two + known.returns.median * (two - one)) / one - 1)

    def _best(self, known: Experience, tree: Tree, leaving: bool) -> tuple[int, float]:
        """The number of nodes with most tokens per second, and how many."""
        size = len(tree)
        if size < 2:
            return 1, 0.0
        if not known.costs.known:
            return size, 0.0
        seconds = known.costs.upto(size)
        name, probabilities, parents = self.reader.name, self.reader.probabilities, tree.parents
        edges, factors, growing = Calibration.EDGES, known.calibration[name].factors(), known.growing[name].median
        one, returning = seconds[1], known.returns.median if leaving else 0.0
        best, top = 1, MARGIN / one
        expected, reached = 1.0, [1.0]
        for node in range(1, size):
            parent = parents[node]
            chance = probabilities[node] / probabilities[parent]
            chance = reached[parent] * min(SUREST, chance * factors[bisect_left(edges, chance)])
            reached.append(chance)
            expected += chance
            passed = seconds[node + 1]
            speed = expected / (passed + returning * (passed - one) + growing)
            if speed > top:
                best, top = node + 1, speed
        return best, top

    def learn(self, verified: Verified, known: Experience, via: str) -> int:
        """Take in a step, whoever drafted it.

        Args:
            verified: the step.
            known: takes in what the probabilities were worth, and what the tree took.
            via: the name of who drafted.

        Returns:
            the draft tokens of one of the two that were accepted.
        """
        begun = time.perf_counter()
        self._lookup.learn(verified)
        if via != self.reader.name:
            return 0
        known.calibration[via].learn(*self._proved(verified))
        if self.reader is self._fusion:
            self._fusion.learn(verified)
        known.growing[via].learn(self._growing + time.perf_counter() - begun)
        return len(verified.path) - 1

    def _proved(self, verified: Verified) -> tuple[list[float], set[int]]:
        """What each node whose parent was accepted had promised, and which of these nodes were accepted as well. Of whole paths
        the mistake would grow with their length."""
        probabilities, parents, path = self.reader.probabilities, verified.tree.parents, set(verified.path)
        asked = [node for node in range(1, min(len(parents), LESSONS)) if parents[node] in path]
        promised = [1.0, *(probabilities[node] / probabilities[parents[node]] for node in asked)]
        return promised, {place for place, node in enumerate(asked, 1) if node in path}
