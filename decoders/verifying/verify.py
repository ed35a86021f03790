"""The loop that every method shares: draft → evaluate → choose → walk → commit → learn. Replay runs it too."""

from __future__ import annotations

from collections.abc import Sequence

from ...backends.base import Scores
from ...backends.grammars.matcher import Matcher
from ..acceptance import accept
from ..base import Context, Drafter, StepOutcome, Verified
from ..tree import Tree
from .clock import ProbabilityRecorder, StepClock
from .passes import Guard, Pass


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


def verify(
    drafter: Drafter, context: Context, clock: StepClock, recorder: ProbabilityRecorder, guard: Guard | None = None
) -> StepOutcome:
    """Run one step: accept the longest path of a drafted tree that the target agrees with, and add the target's own choice."""
    tree = drafter.sized(drafter.draft(context), context)
    running = (Pass if context.matcher is None else ConstrainedPass)(context, tree)
    clock.drafted(running)
    running.evaluate()
    chosen = running.choose()
    path = _path(running, chosen, guard)
    recorder.record(running, chosen, path)
    running.commit(path)
    drafter.sizes.learn(running.tree, path, context)
    drafter.learn(Verified(running.tree, chosen, path, running.scores, *clock.verified(running)))
    return running.outcome(chosen, path, recorder.probs)


def _path(running: Pass, chosen: list[int], guard: Guard | None) -> list[int]:
    """Find the accepted path; `chosen` is changed to match, for the drafters to learn."""
    tree, context = running.tree, running.context
    if running.exactly:
        path = running.walk(chosen)
        return guard.checked(running, chosen, path) if guard is not None else path
    path, last = accept(tree, running.weighed, chosen, context.acceptance, context.sampling, running.history)
    for node, follows in zip(path, [*(tree.tokens[node] for node in path[1:]), last], strict=True):
        chosen[node] = follows
    return path
