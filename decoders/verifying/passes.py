"""A token tree as one pass of the target verifies it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...backends.base import ROOT, Scores
from ..acceptance import walk
from ..base import Context, Outcome
from ..tree import Tree


class Pass:
    """The part of a drafted tree that the target can evaluate, behind what the cache lacks of the text (the prompt's end, or
    what is evaluated again, see `Session.exact`). These tokens come first in the session's count of nodes; here nodes count as
    in the tree.

    Args:
        context: of the step.
        tree: as it was drafted.
    """

    def __init__(self, context: Context, tree: Tree) -> None:
        session = self._session = context.session
        self.context, drafted = context, tree
        self.lacking = context.tokens[session.length : -1]
        self.drafting = tree.pre_evaluated / (len(self.lacking) + tree.pre_evaluated) if tree.pre_evaluated else 0.0
        """What part of the session's passes until now was drafting, with its first layers."""
        # `max_depth` bounds the depth; at the very end of the context a broad tree may still have too many nodes.
        most = session.context - session.length - len(self.lacking)
        readable = context.model.info.readable if context.model is not None else None
        self.tree = self._allowed(tree).fitted(most, session.branches if context.branching else 1, readable)
        self.exactly = context.acceptance.rule == "exact" or len(self.tree) == 1
        """Whether the target's own choice decides."""
        if drafted.pre_evaluated and self.tree is not drafted:  # the first layers have been through what goes
            lacking, kept = len(self.lacking), self.tree.pre_evaluated
            session.commit(()) if not kept else session.drop(range(lacking + kept, lacking + drafted.pre_evaluated))

    def __len__(self) -> int:
        return len(self.lacking) + len(self.tree)

    def _allowed(self, tree: Tree) -> Tree:
        """The part of a drafted tree that a constraint allows; without one, all of it."""
        return tree

    def choose(self) -> list[int]:
        """The target's choice after each node."""
        return self.scores.choose(self.context.sampling, self.histories(range(len(self.tree))))

    def walk(self, chosen: list[int]) -> list[int]:
        """The accepted path by these choices."""
        return walk(self.tree, chosen)

    def near_ties(self, nodes: Sequence[int], picks: Sequence[int], bound: float) -> list[bool]:
        """Which of some nodes' choices are near ties (see `Scores.near_ties`)."""
        return self.scores.near_ties(nodes, picks, self.context.sampling, bound, self.histories(nodes))

    def evaluate(self) -> Scores:
        """A row for each node of the tree. What was evaluated with the first layers goes on from there."""
        session, tree, lacking = self._session, self.tree, len(self.lacking)
        if not lacking and not tree.pre_evaluated:
            self.scores = session.evaluate(tree.tokens, tree.parents)
        else:
            tokens = [*self.lacking, *tree.tokens]
            parents = [*range(ROOT, lacking - 1), *(lacking + parent for parent in tree.parents)]
            done = lacking + tree.pre_evaluated if tree.pre_evaluated else 0
            self.scores = session.evaluate(tokens[done:], parents[done:], range(lacking, len(tokens)))
        self.weighed = self.scores
        """What acceptance rules weigh."""
        return self.scores

    def exact(self, path: list[int]) -> int:
        """How many nodes of a path, from its start, are bit for bit what plain decoding would have (see `Session.exact`)."""
        return max(0, self._session.exact(self._nodes(path)) - len(self.lacking))

    def commit(self, path: list[int]) -> None:
        """Commit a path; where the target's own choice decides only its exact part, because the next pass evaluates the rest
        again."""
        nodes = self._nodes(path)
        kept = self._session.exact(nodes) if self.exactly else 0
        self._session.commit(nodes[:kept] if kept else nodes)

    def outcome(self, chosen: list[int], path: list[int], probs: tuple[float, ...]) -> Outcome:
        """What came of it."""
        tree = self.tree
        tokens = [*(tree.tokens[node] for node in path[1:]), chosen[path[-1]]]
        counts = tree.drafted, tree.accepted(path)
        return Outcome(tokens, tree, path, *counts, probs=probs, grammar=self.certain(path))

    def certain(self, path: list[int]) -> int:
        """How many tokens of a path, and of the choice after it, a constraint left no choice about."""
        return 0

    def histories(self, nodes: Iterable[int]) -> list[list[int]] | None:
        """All tokens up to and including each node; None where no setting asks."""
        return [self.history(node) for node in nodes] if self.context.sampling.uses_history else None

    def history(self, node: int) -> list[int]:
        """All tokens up to and including a node."""
        return [*self.context.tokens[:-1], *(self.tree.tokens[i] for i in self.tree.path(node))]

    def _nodes(self, path: list[int]) -> list[int]:
        """A path as the session counts, with the nodes before it."""
        lacking = len(self.lacking)
        return [*range(lacking), *(lacking + node for node in path)] if lacking else path
