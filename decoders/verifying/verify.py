"""The loop that every method shares: draft → evaluate → choose → walk → commit → learn. Replay runs it too."""

from __future__ import annotations

from collections.abc import Sequence

from ...backends.base import Scores
from ...backends.grammars.matcher import Matcher
from ..acceptance import accept
from ..base import Context, Drafter, Outcome, Verified
from ..tree import Tree
from .clock import StepClock, Watch
from .guard import Guard
from .passes import Pass


class ConstrainedPass(Pass):
    """Drafts that the constraint forbids are not evaluated. Where the target's own choice decides, choices are made allowed
    along the path that is walked; elsewhere all of them are.

    Args:
        context: of the step, with a matcher.
        tree: as it was drafted.
    """

    def __init__(self, context: Context, tree: Tree) -> None:
        assert context.matcher is not None
        self._matcher: Matcher = context.matcher
        sampling = context.sampling
        self._own_first = sampling.greedy or (sampling.top_k == 0 and sampling.top_p == 1 and sampling.min_p == 0)
        self._picks: dict[int, int] = {}
        """The choices made."""
        self._certain: set[int] = set()
        """Nodes that leave no choice."""
        self._rows: dict[int, Scores] = {}
        """The masked scores of nodes."""
        super().__init__(context, tree)

    def _allowed(self, tree: Tree) -> Tree:
        living, forced = living_of(tree, self._matcher)
        tree.certain = frozenset(forced)
        match self.context.acceptance.rule:
            case "rejection" if tree.probs:
                return tree  # draws without replacement need their siblings; what has no probability is refused there
            case "exact":  # nothing forbidden is ever chosen: what the method works on may stay
                kept = set(range(len(tree))) if tree.keeps else living.union(*map(tree.path, tree.window))
            case _:
                kept = living
        return tree if len(kept) == len(tree) else tree.only(sorted(kept))

    def choose(self) -> list[int]:
        if self.exactly:
            self._own = super().choose()
            return [*self._own]
        rows = range(len(self.tree))
        self.weighed = self.scores.masked(rows, [self._matcher.mask(self._line(node)) for node in rows])
        return self.weighed.choose(self.context.sampling, self.histories(rows))

    def walk(self, chosen: list[int]) -> list[int]:
        tree, path = self.tree, [0]
        while True:
            node = path[-1]
            token = chosen[node] = self._pick(node, chosen[node])
            below = (i for i in range(node + 1, len(tree)) if tree.parents[i] == node and tree.tokens[i] == token)
            if (child := next(below, None)) is None:
                return path
            path.append(child)

    def near_ties(self, nodes: Sequence[int], picks: Sequence[int], bound: float) -> list[bool]:
        found = super().near_ties(nodes, picks, bound) if self._own_first else [True] * len(nodes)
        for i, (node, pick) in enumerate(zip(nodes, picks, strict=True)):
            if node in self._certain:
                found[i] = False
            elif found[i] or pick != self._own[node]:  # what is forbidden is no rival
                row = self._row(node)
                found[i] = row.near_ties((0,), (pick,), self.context.sampling, bound, self.histories((node,)))[0]
        return found

    def certain(self, path: list[int]) -> int:
        return sum(node in self.tree.certain for node in path[1:]) + (path[-1] in self._certain)

    def _pick(self, node: int, own: int) -> int:
        """The choice after a node, if the target's own one is this."""
        if node in self._picks:
            return self._picks[node]
        matcher, line = self._matcher, self._line(node)
        if (self.tree.tokens[node] in matcher.ends and node) or (not node and matcher.before and matcher.before(own)):
            pick = own  # nothing follows, or a thought does
        elif forced := matcher.forced(line):
            pick = forced[0]
            self._certain.add(node)
        elif self._own_first and matcher.may_follow(line, own):
            pick = own
        else:
            (pick,) = self._row(node).choose(self.context.sampling, self.histories((node,)))
        self._picks[node] = pick
        return pick

    def _row(self, node: int) -> Scores:
        if node not in self._rows:
            self._rows[node] = self.scores.masked((node,), (self._matcher.mask(self._line(node)),))
        return self._rows[node]

    def _line(self, node: int) -> list[int]:
        """The tokens from the answer's end to a node, that one included."""
        return [self.tree.tokens[i] for i in self.tree.path(node)[1:]]


def living_of(tree: Tree, matcher: Matcher) -> tuple[set[int], set[int]]:
    """The nodes that a constraint allows, and those of them that it leaves no choice about.

    Args:
        tree: as it was drafted.
        matcher: at the end of the answer, which ends with node 0.
    """
    living, forced = {0}, set[int]()
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents[1:], 1):
        below.setdefault(parent, []).append(node)
    open_nodes: list[tuple[int, list[int]]] = [(0, [])]
    while open_nodes:
        parent, line = open_nodes.pop()
        if (children := below.get(parent)) is None:
            continue
        certain = matcher.forced(line)[:1]
        for node in children:
            token = tree.tokens[node]
            if (token != certain[0]) if certain else not matcher.may_follow(line, token):
                continue
            living.add(node)
            if certain:
                forced.add(node)
            if token not in matcher.ends:
                open_nodes.append((node, [*line, token]))
    return living, forced


def verify(drafter: Drafter, context: Context, clock: StepClock, watch: Watch, guard: Guard | None = None) -> Outcome:
    """One step: the longest path of a drafted tree that the target agrees with, and the target's own choice after it."""
    tree = drafter.sized(drafter.draft(context), context)
    running = (Pass if context.matcher is None else ConstrainedPass)(context, tree)
    clock.drafted(running)
    running.evaluate()
    chosen = running.choose()
    path = _path(running, chosen, guard)
    watch.look(running, chosen, path)
    running.commit(path)
    drafter.sizes.learn(running.tree, path, context)
    drafter.learn(Verified(running.tree, chosen, path, running.scores, *clock.verified(running)))
    return running.outcome(chosen, path, watch.probs)


def _path(running: Pass, chosen: list[int], guard: Guard | None) -> list[int]:
    """The accepted path; `chosen` is changed to what became of it, for the drafters to learn."""
    tree, context = running.tree, running.context
    if running.exactly:
        path = running.walk(chosen)
        return guard.checked(running, chosen, path) if guard is not None else path
    path, last = accept(tree, running.weighed, chosen, context.acceptance, context.sampling, running.history)
    for node, follows in zip(path, [*(tree.tokens[node] for node in path[1:]), last], strict=True):
        chosen[node] = follows
    return path
