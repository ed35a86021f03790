"""A token tree as one pass of the target verifies it, and the guard of identity, which decides how much of an accepted path has
plain decoding's bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from ...backends.base import ROOT, Scores
from ..acceptance import walk
from ..base import Context, StepOutcome
from ..tree import Tree


class Pass:
    """The part of a drafted tree that the target can evaluate, behind the tokens that the cache lacks of the text (the prompt's
    end, or those evaluated again, see `Session.exact`). The session numbers these first, nodes here are as in the tree.

    Args:
        context: of the step.
        tree: as it was drafted.
    """

    def __init__(self, context: Context, tree: Tree) -> None:
        session = self._session = context.session
        self.context = context
        drafted = tree
        self.lacking = context.tokens[session.length : -1]
        self.drafting = tree.pre_evaluated / (len(self.lacking) + tree.pre_evaluated) if tree.pre_evaluated else 0.0
        """Share of drafting, with the first layers, in the step's passes so far."""
        # `max_depth` bounds the depth; at the very end of the context a broad tree may still have too many nodes.
        most = session.context - session.length - len(self.lacking)
        readable = context.model.info.readable if context.model is not None else None
        self.tree = self._allowed(tree).fitted(most, session.branches if context.branching else 1, readable)
        self.exactly = context.acceptance.rule == "exact" or len(self.tree) == 1
        """Whether the target's own choice decides."""
        if drafted.pre_evaluated and self.tree is not drafted:  # the first layers have evaluated nodes that were cut
            lacking, remaining = len(self.lacking), self.tree.pre_evaluated
            if remaining:
                session.drop(range(lacking + remaining, lacking + drafted.pre_evaluated))
            else:
                session.commit(())

    def __len__(self) -> int:
        return len(self.lacking) + len(self.tree)

    def _allowed(self, tree: Tree) -> Tree:
        """Cut a drafted tree to the part that a constraint allows; without one, all of it."""
        return tree

    def choose(self) -> list[int]:
        """List the target's choice after each node."""
        return self.scores.choose(self.context.sampling, self.histories(range(len(self.tree))))

    def walk(self, chosen: list[int]) -> list[int]:
        """Find the accepted path by these choices."""
        return walk(self.tree, chosen)

    def near_ties(self, nodes: Sequence[int], picks: Sequence[int], bound: float) -> list[bool]:
        """Say of each node's choice whether it is a near tie (see `Scores.near_ties`)."""
        return self.scores.near_ties(nodes, self.context.sampling, bound, self.histories(nodes))

    def evaluate(self) -> Scores:
        """Evaluate the tree, with a row for each node. Pre-evaluated nodes continue behind their first layers."""
        session, tree, lacking = self._session, self.tree, len(self.lacking)
        if not lacking and not tree.pre_evaluated:
            self.scores = session.evaluate(tree.tokens, tree.parents)
        else:
            tokens = [*self.lacking, *tree.tokens]
            parents = [*range(ROOT, lacking - 1), *(lacking + parent for parent in tree.parents)]
            done = lacking + tree.pre_evaluated if tree.pre_evaluated else 0
            self.scores = session.evaluate(tokens[done:], parents[done:], range(lacking, len(tokens)))
        self.weighed = self.scores
        """The scores that acceptance rules read."""
        return self.scores

    def exact(self, path: list[int]) -> int:
        """Count the nodes at a path's start that have plain decoding's bits (see `Session.exact`)."""
        return max(0, self._session.exact(self._nodes(path)) - len(self.lacking))

    def commit(self, path: list[int]) -> None:
        """Commit a path; where the target's own choice decides only its exact part, because the next pass evaluates the rest
        again."""
        nodes = self._nodes(path)
        exact = self._session.exact(nodes) if self.exactly else 0
        self._session.commit(nodes[:exact] if exact else nodes)

    def outcome(self, chosen: list[int], path: list[int], probs: tuple[float, ...]) -> StepOutcome:
        """Collect the results, given the choices and the accepted path."""
        tree = self.tree
        return StepOutcome(
            tokens=[*(tree.tokens[node] for node in path[1:]), chosen[path[-1]]],
            tree=tree,
            path=path,
            drafted=tree.drafted,
            accepted=tree.accepted(path),
            probs=probs,
            grammar=self.certain(path),
        )

    def certain(self, path: list[int]) -> int:
        """Count the grammar-forced tokens among the accepted path and the bonus token."""
        return 0

    def histories(self, nodes: Iterable[int]) -> list[list[int]] | None:
        """List the tokens up to and including each node; None where no setting reads them."""
        return [self.history(node) for node in nodes] if self.context.sampling.uses_history else None

    def history(self, node: int) -> list[int]:
        """List the tokens up to and including a node."""
        return [*self.context.tokens[:-1], *(self.tree.tokens[i] for i in self.tree.path(node))]

    def _nodes(self, path: list[int]) -> list[int]:
        """Number a path as the session does, with the lacking tokens before it."""
        lacking = len(self.lacking)
        return [*range(lacking), *(lacking + node for node in path)] if lacking else path


class Guard(ABC):
    """Has the last word on an accepted path."""

    @abstractmethod
    def checked(self, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
        """Check an accepted path and return it, possibly shorter; `chosen` is changed to match.

        Args:
            running: the pass, evaluated.
            chosen: the target's choice after each node.
            path: the accepted one by these choices.
        """


class SideGuard(Guard):
    """Ends a path at the first near tie off the tree's first path.

    There the order of a sum may have moved the last bits of a logit. The next pass begins with that node, on its first path,
    and decides as plain decoding does.

    Args:
        near_tie: how close the two best choices must be for that, in logits.
    """

    def __init__(self, near_tie: float) -> None:
        self._near_tie = near_tie

    def checked(self, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
        start = running.exact(path)
        inexact = path[start:]
        if not inexact:
            return path
        ties = running.near_ties(inexact, [chosen[node] for node in inexact], self._near_tie)
        return path[: start + ties.index(True)] if any(ties) else path
