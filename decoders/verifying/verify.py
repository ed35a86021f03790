"""The loop that every method shares: draft → evaluate → choose → walk → commit → learn. Replay runs it too."""

from __future__ import annotations

from ..acceptance import accept
from ..base import Context, Drafter, Outcome, Verified
from .clock import StepClock, Watch
from .constrained import ConstrainedPass
from .guard import Guard
from .passes import Pass


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
