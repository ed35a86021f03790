"""What flash attention costs a model, by passes behind a short and a long text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .context import Context

LENGTHS = (256, 2048)
"""Tokens of text of usual chats."""
NODES = (1, 8)
SEED = 64
"""Tokens that are read; the rest of a text are copies of their keys and values, which take no time to make."""
ROUNDS = 2
SIZE = max(LENGTHS) + max(NODES)
"""Tokens of a context to measure in."""
SEQUENCES = 2


def attention_seconds(run: Context, text: Sequence[int], window: int, tick: Callable[[], None]) -> list[float]:
    """Measure the seconds of passes over NODES behind texts of LENGTHS, one after the other; empty if it cannot be done.

    They are those that this thread computes, the least of some rounds: other programs are not in them.

    Args:
        run: a context of SIZE tokens and SEQUENCES; what is in it goes.
        text: SEED and the largest of NODES ids.
        window: tokens that layers with a sliding window see; 0 if all layers see all.
        tick: called after each pass; may raise Cancelled.
    """

    def read(position: int) -> NDArray[np.uint8]:
        run.clear()
        run.decode(text[:SEED], range(position, position + SEED), [1] * SEED, ())
        tick()
        return run.cells()

    taken = list[float]()
    beyond = read(0)
    for length in LENGTHS:
        seen = min(window or length, length) // SEED
        near = read(length - SEED)
        copies = [near] * (seen - 1) + [beyond] * (length // SEED - seen)
        if not all(map(run.add_cells, copies)):
            return []
        for nodes in NODES:
            rounds = []
            for _ in range(ROUNDS):
                start = time.thread_time()
                places = range(length, length + nodes)
                if run.decode(text[SEED : SEED + nodes], places, [1] * nodes, range(nodes)):
                    return []
                rounds.append(time.thread_time() - start)
                run.remove(0, length, -1)
                tick()
            taken.append(min(rounds))
    return taken


def attention_cost(found: Sequence[float], other: Sequence[float]) -> float:
    """Return how many times as long passes take as in another setting; 1 where either was not measured."""
    ratios = [a / b for a, b in zip(found, other, strict=False)]
    return sum(ratios) / len(ratios) if ratios else 1.0
