"""How far logits move between passes of one node and of many: found at load, for every runtime; and the example that its proofs
have in common.

A pass of many rows may round otherwise than a pass of one, and where two choices are nearly equal the other one then wins. If
no bit moves, *identical* is proven. Otherwise the loop's guard decides near ties in a pass of their own (see `loop.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import Cancelled
from .base import ROOT, Session
from .options import StageProgress

PREFIX = 6
"""Tokens of a proof before its tree: more than `hf/proving/lengths.py` has in its windows, so that these matter."""
PARENTS = (ROOT, 0, 0, 1, 2)
"""The tree: one root, two children, one grandchild below each."""
PATHS = ((0, 1, 3), (0, 2, 4))

STEPS = 12
"""Tokens that are evaluated one by one, and then again in passes of several."""

CONTEXTS = (6, 186, 270)
"""Tokens before them. llama.cpp takes attention's keys in blocks of 256, and shares them out to its threads from the second
block on; torch divides them in other ways beyond 192, which the second text crosses."""

BEFORE = 20
"""Tokens of the prompt's end that go through the model together with the steps."""

LARGE = 1_000_000_000
"""Parameters of a model on the CPU that leaves out the longest text: it would take many seconds of its load."""

LEAST = 0.004
"""Least typical movement, in units of the logits' standard deviation. Where activations are rounded to eight bits, or the cache
to sixteen, most tokens move little or not at all and a few by a hundred times as much, in long texts no more than in short
ones: a measurement may miss them. Seen in texts with such a token: 0.002 to 0.014 in quantized weights, up to 0.0006 in
float32 with a cache in float16."""

TOKENS = max(CONTEXTS) + STEPS + 1
"""How many token ids a measurement needs, and slots besides a tree's."""

PASSES = len(CONTEXTS) * (STEPS + 5)


SAFETY = 12.0
"""Times the typical movement within which near ties are looked for: the lead of one choice over another moves by the difference
of two such movements, and what a text's earlier passes left in the cache adds to it."""


def example(vocabulary: int, count: int) -> list[int]:
    """Token ids to prove something on: spread over the vocabulary, the same every time."""
    return [(7919 * (i + 1)) % max(2, vocabulary - 1) for i in range(count)]


def ticking(most: int, progress: StageProgress | None, cancelled: Callable[[], bool] | None) -> Callable[[], None]:
    """What a proof of `most` passes calls after each: it tells `progress`, and ends the proof where `cancelled` says so."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("check", min(done, most), most)
        if cancelled is not None and cancelled():
            raise Cancelled

    return tick


@dataclass(frozen=True, slots=True)
class Movement:
    """What passes of many nodes do to the logits of passes of one."""

    most: float
    """Greatest difference in any logit; 0 if every bit is the same."""
    typical: float
    """Root-mean-square difference, in the text that moved them most."""
    highest: float
    """Greatest logit, without its sign."""
    spread: float
    """Standard deviation of the logits."""
    proven: bool
    """Every bit was the same, in all of CONTEXTS."""

    @property
    def near_tie(self) -> float:
        """How close two choices must be for a pass of many nodes to turn them round, in logits."""
        return SAFETY * max(self.typical, LEAST * self.spread)


def straightest(parents: Sequence[int], first: int) -> list[int] | None:
    """The place of each new node among the slots that its pass takes; None for their own order.

    Each node's first child, which drafters think likeliest, follows it: the likeliest path has the slots that plain decoding
    gives it, and with them its bits.

    Args:
        parents: of the new nodes [n].
        first: id of the first of them.
    """
    if len(parents) < 3:
        return None
    main = [0]
    for i, parent in enumerate(parents):
        if parent == first + main[-1]:
            main.append(i)
    if main[-1] == len(main) - 1:
        return None
    taken = set(main)
    place = [0] * len(parents)
    for at, i in enumerate((*main, *(i for i in range(len(parents)) if i not in taken))):
        place[i] = at
    return place


def movement(
    session: Session, tokens: Sequence[int], tick: Callable[[], None], *, tree: bool, parameters: int, cpu: bool
) -> Movement:
    """Measure it.

    Args:
        session: what was in it goes; if it holds fewer than TOKENS and a tree, the texts are shorter.
        tokens: TOKENS ids.
        tick: told after each pass; may raise Cancelled.
        tree: whether branching trees work.
        parameters: of the model.
        cpu: whether it runs on the CPU.
    """
    moved: list[Tensor] = []
    highest = spread = 0.0
    long = not cpu or parameters <= LARGE

    def logits(new: Sequence[int], parents: Sequence[int], rows: Sequence[int]) -> Tensor:
        scores = session.evaluate(new, parents, rows)
        tick()
        return scores.logits.float().clone()  # type: ignore[attr-defined, no-any-return]

    room, held = session.context - STEPS - 3, 0
    session.rewind(0)
    for length in sorted({min(length, room) for length in (CONTEXTS if long else CONTEXTS[:-1])}):
        found: list[Tensor] = []
        steps = list(tokens[length : length + STEPS])
        session.rewind(held)
        session.prefill(tokens[held:length])
        tick()
        alone = []
        for token in steps:
            alone.append(logits((token,), (ROOT,), (0,)))
            session.commit((0,))
        wanted = torch.cat(alone)
        highest, spread = max(highest, float(wanted.abs().max())), max(spread, float(wanted.std()))
        # The same tokens as a chain, and then one of them after what the chain left in the cache.
        session.rewind(length)
        found.append(logits(steps, range(ROOT, STEPS - 1), range(STEPS)) - wanted)
        session.commit((0, 1))
        found.append(logits(steps[2:3], (ROOT,), (0,)) - wanted[2:3])
        # As a tree's first path, with wrong guesses beside it.
        session.rewind(length)
        wrong = tokens[0]
        if tree:
            nodes, parents, path = [steps[0], steps[1], wrong, steps[2], wrong, wrong], [ROOT, 0, 0, 1, 1, 3], (0, 1, 3)
            rows = logits(nodes, parents, path)
            kept = session.exact(path)
            found.append(rows[:kept] - wanted[:kept])
        # Behind the prompt's end, in its pass.
        held = max(0, length - BEFORE)
        session.rewind(held)
        before = length - held
        chain = [*tokens[held:length], *steps]
        found.append(logits(chain, range(ROOT, len(chain) - 1), range(before, len(chain))) - wanted)
        moved.append(torch.cat(found))
    session.rewind(0)
    most = max(float(some.abs().max()) for some in moved)
    typical = max(float(some.square().mean().sqrt()) for some in moved)
    return Movement(most, typical, highest, spread, most == 0 and long)
