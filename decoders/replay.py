"""What a drafter would have drafted and had accepted, had a recorded answer been generated with it. No model runs.

The record stands in for the target: at each node of the drafter's tree the choice is the recorded next token. So any
model-free method (others' too) can be scored on answers from anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..backends.base import Sampling
from ..backends.recorded import RecordedModel
from .base import Context, Drafter, Tree, Verified
from .stats import Totals
from .verify import walk

SLACK = 1024
"""Room for draft tokens, always the same: a drafter must not see where the record ends."""


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One forward pass that the answer would have taken."""

    tokens: tuple[int, ...]
    """The tokens it would have produced."""
    drafted: int
    accepted: int
    nodes: int
    draft_seconds: float
    tree: Tree | None
    """None for the prefill."""
    path: tuple[int, ...]
    forward_seconds: float = 0.0
    """Nothing is evaluated."""
    other_seconds: float = 0.0


def replay(
    prompt: Sequence[int],
    response: Sequence[int],
    drafter: Drafter,
    *,
    eos_ids: Sequence[int] = (),
    branching: bool = True,
) -> Totals:
    """Decode a recorded answer with a drafter.

    Counting, which reproduces the published measurements of prompt lookup: the prefill is the first pass and produces the
    first token without a draft; EOS counts as a token if the response ends in one. Tokens per step is then
    len(response) / (1 + verification passes).

    Args:
        prompt: token ids, at least one.
        response: token ids, with EOS at the end unless it was cut off.
        drafter: an instance for this record alone; it sees the settings of greedy decoding.
        eos_ids: none of them is drafted past, and the record ends with the first one in it.
        branching: whether the target is taken to verify branching trees.

    Returns:
        the totals; `draft_seconds` is measured (drafting and learning), `forward_seconds` is 0.
    """
    ends = frozenset(eos_ids)
    length = next((i + 1 for i, token in enumerate(response) if token in ends), len(response))
    # Its own EOS, the choice off the record, is an id of its own: nothing can draft it.
    model = RecordedModel([(prompt, response[:length])], context=len(prompt) + length + SLACK)
    session, sampling = model.open_session(), Sampling()
    totals = Totals()
    if not length:
        return totals
    session.prefill(prompt)
    tokens = [*prompt, response[0]]
    totals.add(ReplayStep((response[0],), 0, 0, len(prompt), 0.0, None, (0,)))
    while (left := len(prompt) + length - len(tokens)) > 0:
        start = time.perf_counter()
        tree = drafter.draft(Context(tokens, session, sampling, SLACK, ends, branching))
        seconds = time.perf_counter() - start
        scores = session.evaluate(tree.tokens, tree.parents)
        chosen = scores.choose(sampling)
        path = walk(tree, chosen)
        session.commit(path)
        new = [tree.tokens[node] for node in path[1:]] + [chosen[path[-1]]]
        del new[left:]
        start = time.perf_counter()
        drafter.learn(Verified(tree, chosen, path, scores, seconds))
        seconds += time.perf_counter() - start
        tokens.extend(new)
        totals.add(ReplayStep(tuple(new), len(tree) - 1, len(path) - 1, len(tree), seconds, tree, tuple(path)))
    return totals
