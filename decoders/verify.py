"""The loop that every method shares: draft → evaluate → choose → walk → commit → learn. Replay runs it too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..backends.base import ROOT, Scores, Session
from ..backends.grammars.matcher import Matcher
from .acceptance import accept, probabilities, walk
from .base import Context, Drafter, StepOutcome, Verified
from .tree import Tree


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


class ConstrainedPass(Pass):
    """A pass that does not evaluate draft tokens that the constraint forbids. Under exact match only the choices along the
    accepted path are constrained; under other rules all of them are.

    Args:
        context: of the step, with a matcher.
        tree: as it was drafted.
    """

    def __init__(self, context: Context, tree: Tree) -> None:
        assert context.matcher is not None
        self._matcher: Matcher = context.matcher
        sampling = context.sampling
        self._unfiltered = sampling.greedy or (sampling.top_k == 0 and sampling.top_p == 1 and sampling.min_p == 0)
        """Whether an allowed unconstrained choice is also the constrained one: filters might keep other tokens."""
        self._picks: dict[int, int] = {}
        """The choices made, by node."""
        self._forcing: set[int] = set()
        """Nodes after which only one token is allowed."""
        self._rows: dict[int, Scores] = {}
        """The masked scores, by node."""
        super().__init__(context, tree)

    def _allowed(self, tree: Tree) -> Tree:
        allowed, forced = allowed_nodes(tree, self._matcher)
        tree.certain = frozenset(forced)
        match self.context.acceptance.rule:
            case "rejection" if tree.probs:
                return tree  # draws without replacement need their siblings; a token without probability is rejected there
            case "exact":  # a forbidden token is never chosen: nodes that the method works on may stay
                allowed = set(range(len(tree))) if tree.keeps else allowed.union(*map(tree.path, tree.window))
        return tree if len(allowed) == len(tree) else tree.only(sorted(allowed))

    def choose(self) -> list[int]:
        if self.exactly:
            self._unconstrained = super().choose()
            return [*self._unconstrained]
        rows = range(len(self.tree))
        self.weighed = self.scores.masked(rows, [self._matcher.mask(self._line(node)) for node in rows])
        return self.weighed.choose(self.context.sampling, self.histories(rows))

    def walk(self, chosen: list[int]) -> list[int]:
        path = [0]
        while True:
            node = path[-1]
            chosen[node] = self._pick(node, chosen[node])
            if (child := self.tree.child(node, chosen[node])) is None:
                return path
            path.append(child)

    def near_ties(self, nodes: Sequence[int], picks: Sequence[int], bound: float) -> list[bool]:
        ties = super().near_ties(nodes, picks, bound) if self._unfiltered else [True] * len(nodes)
        for i, (node, pick) in enumerate(zip(nodes, picks, strict=True)):
            if node in self._forcing:
                ties[i] = False
            elif ties[i] or pick != self._unconstrained[node]:  # a forbidden token is no rival
                row = self._row(node)
                ties[i] = row.near_ties((0,), self.context.sampling, bound, self.histories((node,)))[0]
        return ties

    def certain(self, path: list[int]) -> int:
        return sum(node in self.tree.certain for node in path[1:]) + (path[-1] in self._forcing)

    def _pick(self, node: int, choice: int) -> int:
        """Choose the token after a node, where the target alone would choose `choice`."""
        if node in self._picks:
            return self._picks[node]
        matcher, line = self._matcher, self._line(node)
        if (self.tree.tokens[node] in matcher.ends and node) or (not node and matcher.before and matcher.before(choice)):
            pick = choice  # the text ends here, or a thought begins
        elif forced := matcher.forced(line):
            pick = forced[0]
            self._forcing.add(node)
        elif self._unfiltered and matcher.may_follow(line, choice):
            pick = choice
        else:
            (pick,) = self._row(node).choose(self.context.sampling, self.histories((node,)))
        self._picks[node] = pick
        return pick

    def _row(self, node: int) -> Scores:
        if node not in self._rows:
            self._rows[node] = self.scores.masked((node,), (self._matcher.mask(self._line(node)),))
        return self._rows[node]

    def _line(self, node: int) -> list[int]:
        return [self.tree.tokens[i] for i in self.tree.path(node)[1:]]


def allowed_nodes(tree: Tree, matcher: Matcher) -> tuple[set[int], set[int]]:
    """Find the nodes that a constraint allows, and those of them that it forces.

    Args:
        tree: as it was drafted.
        matcher: at the end of the answer, which ends with node 0.
    """
    allowed, forced = {0}, set[int]()
    children = tree.children()
    open_nodes: list[tuple[int, list[int]]] = [(0, [])]
    while open_nodes:
        parent, line = open_nodes.pop()
        if parent not in children:
            continue
        only = matcher.forced(line)[:1]
        for node in children[parent]:
            token = tree.tokens[node]
            if not parent and matcher.before is not None and matcher.before(token):
                continue  # none of the answer, so that nothing of it follows in this pass
            if (token != only[0]) if only else not matcher.may_follow(line, token):
                continue
            allowed.add(node)
            if only:
                forced.add(node)
            if token not in matcher.ends:
                open_nodes.append((node, [*line, token]))
    return allowed, forced


Guard = Callable[[Pass, list[int], list[int]], list[int]]
"""Has the last word on an accepted path: takes the evaluated pass, the target's choice after each node and the path by these
choices; returns the path, possibly shorter, and changes the choices to match."""


def end_at_near_tie(near_tie: float, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
    """End a path at the first near tie off the tree's first path, where two choices are at most `near_tie` apart in logits.

    There the order of a sum may have moved the last bits of a logit. The next pass begins with that node, on its first path,
    and decides as plain decoding does.
    """
    start = running.exact(path)
    inexact = path[start:]
    if not inexact:
        return path
    ties = running.near_ties(inexact, [chosen[node] for node in inexact], near_tie)
    return path[: start + ties.index(True)] if any(ties) else path


class StepClock:
    """Divides a step's seconds among the draft, the target's passes, the prompt tokens that they read, and the rest.

    Args:
        session: the target's.
        prompt: tokens of the prompt.
    """

    def __init__(self, session: Session, prompt: int = 0) -> None:
        self._session = session
        self._prompt = prompt
        self._started = self._verifying = time.perf_counter()
        self._forward = session.forward_seconds
        self._nodes = session.nodes_evaluated
        self.draft_seconds = self.verify_seconds = self.prefill_seconds = 0.0
        self.excluded = 0.0
        """Seconds that no step counts, as those of recording probabilities."""
        self.prefilled = 0
        """Prompt tokens that its passes read."""

    def drafted(self, running: Pass) -> None:
        """End the draft; it includes the drafting part of the target's passes so far."""
        self._verifying = time.perf_counter()
        passes = self._session.forward_seconds - self._forward
        self.draft_seconds = self._verifying - self._started - passes * (1 - running.drafting)
        self._forward += passes * running.drafting
        self.prefilled = max(0, self._prompt - 1 - self._session.length)

    def verified(self, running: Pass) -> tuple[float, float]:
        """Return the seconds of the draft, and of the pass with choice and commit; 0 if the pass read some of the text too,
        which says nothing of other passes."""
        self.verify_seconds = time.perf_counter() - self._verifying - self.excluded
        return self.draft_seconds, 0.0 if running.lacking else self.verify_seconds

    def stop(self) -> dict[str, Any]:
        """End the step; return its seconds in the fields of a `StepRecord`."""
        session, prefilled = self._session, self.prefilled
        nodes = session.nodes_evaluated - self._nodes - prefilled
        forward = session.forward_seconds - self._forward
        rest = time.perf_counter() - self._started - forward - self.draft_seconds - self.excluded
        self.prefill_seconds = forward * prefilled / (prefilled + nodes) if prefilled else 0.0
        return {
            "nodes": nodes,
            "draft_seconds": self.draft_seconds,
            "forward_seconds": forward - self.prefill_seconds,
            "other_seconds": rest,
            "prefilled": prefilled,
        }


def verify(
    drafter: Drafter, context: Context, clock: StepClock, *, guard: Guard | None = None, records: bool = False
) -> StepOutcome:
    """Run one step: accept the longest path of a drafted tree that the target agrees with, and add the target's own choice.

    Args:
        drafter: grows the tree, and learns.
        context: of the step.
        clock: started for it.
        guard: checks the path where the target's own choice decides.
        records: record the target's probabilities of the tokens that the pass verified.
    """
    running = (Pass if context.matcher is None else ConstrainedPass)(context, drafter.sized(drafter.draft(context), context))
    tree = running.tree
    clock.drafted(running)
    running.evaluate()
    chosen = running.choose()
    if running.exactly:
        path = running.walk(chosen)
        path = path if guard is None else guard(running, chosen, path)
    else:
        path, last = accept(tree, running.weighed, chosen, context.acceptance, context.sampling, running.history)
        for node, follows in zip(path, [*(tree.tokens[node] for node in path[1:]), last], strict=True):
            chosen[node] = follows
    probs: tuple[float, ...] = ()
    if records:
        started = time.perf_counter()
        probs = probabilities(tree, running.scores, path[-1], chosen[path[-1]])
        clock.excluded += time.perf_counter() - started
    running.commit(path)
    drafter.sizes.learn(tree, path, context)
    drafter.learn(Verified(tree, chosen, path, running.scores, *clock.verified(running)))
    return StepOutcome(
        tokens=[*(tree.tokens[node] for node in path[1:]), chosen[path[-1]]],
        tree=tree,
        path=path,
        drafted=tree.drafted,
        accepted=tree.accepted(path),
        probs=probs,
        grammar=running.certain(path),
    )
