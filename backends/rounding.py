"""Which passes give the bits of plain decoding: measured at load, on a real text, for every runtime.

A pass of many rows may round otherwise than a pass of one. Then a near tie may turn, and the keys and values that the pass
leaves in the cache have moved as well: nothing decided on that cache afterwards repairs it. A guard that decided near ties in
passes of one node left 12 of 40 answers different on a bfloat16 GGUF (17 without). So *identical* is promised by the sizes of
passes: where all sizes have equal bits, methods draft as they like, and where small ones have, passes are held to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from operator import mul

import torch
from torch import Tensor

from ..errors import Cancelled
from .base import ROOT, Session
from .info import Capabilities
from .options import StageProgress

VERSION = 4
"""Raised with every change of what a load proves or measures: what is kept of earlier loads no longer counts."""

STEPS = 8
"""Tokens that are evaluated one by one, and then again in passes of several."""

SIZES = (2, 3, 4, 8)
"""Nodes of these passes. llama.cpp multiplies by rows of four and the rest one by one; oneDNN has kernels for one row, for a
few and for many. The prompt's end with the steps behind it is a pass of 28."""

CONTEXTS = (6, 182, 250)
"""Tokens of text before them. llama.cpp takes attention's keys in blocks of 256, which the last text crosses, and shares them
out to its threads from the second block on; torch divides them in other ways beyond 192, which the second crosses."""

BEFORE = 20
"""Tokens of the prompt's end that go through the model together with the steps."""

LARGE = 1_000_000_000
"""Parameters of a model on the CPU that leaves out the longest text: it would take many seconds of its load."""

TOKENS = max(CONTEXTS) + STEPS + 1
"""Token ids that a measurement needs, and slots besides a tree's."""

PASSES = len(CONTEXTS) * (STEPS + sum(-(-STEPS // size) for size in SIZES) + 4)

SAFETY = 3.0
"""A near tie is this many times the largest observed change of a lead: a few dozen tokens were measured."""
LEAST_UNITS = 3
"""Least near tie, in units of the largest logit's last place (seen at most: 0.7 units in 1,676 nodes)."""
LEAST = 0.05
"""Least near tie otherwise, in units of the logits' standard deviation. Where activations are rounded to eight bits, or the
cache to sixteen, most tokens move little or not at all and a few by 0.002 to 0.014: a measurement of few tokens misses them."""


def ticking(most: int, progress: StageProgress | None, cancelled: Callable[[], bool] | None) -> Callable[[], None]:
    """Return the function to call after each of `most` passes of a proof: it reports progress, and raises Cancelled."""
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
class Rounding:
    """Differences of passes of many nodes from passes of one, over chains of passes as answers have them."""

    equal: tuple[int, ...]
    """Sizes of SIZES whose chains had equal bits in every text."""
    rest: bool
    """Whether trees along their first path, and the prompt's end in one pass with a draft, had equal bits as well."""
    measured: int
    """Tokens that were measured, by any size."""
    turned: int
    """Cases where another token had the highest logit."""
    side: float
    """Logit gap below which the next pass decides between two choices off a tree's first path."""

    @property
    def exact(self) -> bool:
        """Whether passes of every size have equal bits."""
        return self.rest and self.equal == SIZES

    @property
    def most(self) -> int:
        """Nodes of the largest pass up to which every size has equal bits; 1 if there is none."""
        return [1, *takewhile(self.equal.__contains__, SIZES)][-1]


def straightest(parents: Sequence[int], first: int) -> list[int] | None:
    """Assign each new node a place among the slots of its pass; None for their own order. Their ids begin at `first`.

    Each node's first child, which drafters think likeliest, follows it: the likeliest path has the slots that plain decoding
    gives it, and with them its bits.
    """
    if len(parents) < 3:
        return None
    main = [0]
    for i, parent in enumerate(parents):
        if parent == first + main[-1]:
            main.append(i)
    if main[-1] == len(main) - 1:
        return None
    order = [*main, *sorted({*range(len(parents))}.difference(main))]
    place = [0] * len(parents)
    for at, i in enumerate(order):
        place[i] = at
    return place


class _Measurement:
    """Comparison of passes of several nodes with passes of one in a session, over texts of several lengths."""

    def __init__(self, session: Session, tick: Callable[[], None], *, tree: bool) -> None:
        self._session = session
        self._tick = tick
        self._tree = tree
        self.equal = set(SIZES)
        self.rest = True
        self.measured = self.turned = 0
        self.highest = 0.0
        """Greatest logit, without its sign."""
        self.spread = 0.0
        """Standard deviation of logits."""
        self.moved = 0.0
        """Greatest change of the lead of the best token over the second best, off a tree's first path."""

    def add(self, text: Sequence[int], length: int) -> None:
        """Measure the steps of a text [length + steps + 1] behind its first `length` tokens; the last one is a wrong guess."""
        session, steps, wrong = self._session, list(text[length:-1]), text[-1]
        session.align(text[:length])
        session.prefill(text[session.length : length])
        self._tick()
        plain = self._chains(steps, 1)
        best = plain.topk(2, dim=-1)
        self.highest = max(self.highest, float(plain.abs().max()))
        self.spread = max(self.spread, float(plain.std()))
        for size in SIZES:
            session.rewind(length)
            rows = self._chains(steps, size)
            if not torch.equal(rows, plain):
                self.equal.discard(size)
            self.measured += len(rows)
            # Equal logits are no turn: half types have many.
            self.turned += int((rows.amax(-1) > rows.gather(1, best.indices[:, :1])[:, 0]).sum())
        if self._tree and len(steps) > 3:  # as a tree's first path, between wrong guesses
            session.rewind(length)
            path = (0, 1, 3)
            rows = self._logits([*steps[:2], wrong, steps[2], wrong, wrong], [ROOT, 0, 0, 1, 1, 3], path)
            exact = session.exact(path)
            self.rest = self.rest and torch.equal(rows[:exact], plain[:exact])
            # Off the first path, which is wrong from its second node on.
            session.rewind(length)
            rows = self._logits([steps[0], wrong, wrong, *steps[1:4]], [ROOT, 0, 1, 0, 3, 4], (3, 4, 5))
            moved = rows.gather(1, best.indices[1:4]) - best.values[1:4]
            self.moved = max(self.moved, float(moved.diff(dim=1).abs().max()))
        # Behind the prompt's end, in its pass.
        before = min(length, BEFORE)
        session.rewind(length - before)
        chain = [*text[length - before : length], *steps]
        rows = self._logits(chain, range(ROOT, len(chain) - 1), range(before, len(chain)))
        self.rest = self.rest and torch.equal(rows, plain)
        session.rewind(length - before)

    def _chains(self, steps: Sequence[int], size: int) -> Tensor:
        """Evaluate and commit all steps in passes of `size`; return their logits [steps, vocab]."""
        rows = []
        for begin in range(0, len(steps), size):
            part = steps[begin : begin + size]
            rows.append(self._logits(part, range(ROOT, len(part) - 1), range(len(part))))
            self._session.commit(range(len(part)))
        return torch.cat(rows)

    def _logits(self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int]) -> Tensor:
        logits: Tensor = self._session.evaluate(tokens, parents, rows).logits  # type: ignore[attr-defined]
        self._tick()
        return logits.float().clone()


def measure(
    session: Session,
    text: Sequence[int],
    tick: Callable[[], None],
    *,
    tree: bool,
    contexts: Sequence[int] = CONTEXTS,
    steps: int = STEPS,
    unit: float = 0.0,
) -> Rounding:
    """Measure the rounding of passes behind texts of several lengths.

    Args:
        session: its text goes; if it holds fewer than TOKENS and a tree, the texts are shorter.
        text: ids of a text: the longest of `contexts`, `steps` and one more.
        tick: called after each pass; may raise Cancelled.
        tree: whether branching trees work.
        contexts: lengths of the texts.
        steps: tokens to measure behind each of them.
        unit: last place of the logits, relative to them, where nothing but that rounds; 0 where more does.
    """
    measurement = _Measurement(session, tick, tree=tree)
    room = session.context - steps - 3
    for length in sorted({min(length, room) for length in contexts}):
        measurement.add(text[: length + steps + 1], length)
    session.rewind(0)
    least = LEAST_UNITS * unit * measurement.highest if unit else LEAST * measurement.spread
    return Rounding(
        equal=tuple(size for size in SIZES if size in measurement.equal),
        rest=measurement.rest,
        measured=measurement.measured,
        turned=measurement.turned,
        side=max(SAFETY * measurement.moved, least),
    )


MIXED = (0.3, 0.6, 0.9)
"""Chances of a draft token in open text, in text that repeats some of its words, and in copies."""


def drafting_gain(curve: Sequence[tuple[int, float]], most: int | None = None) -> float:
    """Estimate the tokens for the time of one plain pass that the best chains bring, of `most` nodes at most, as a mean
    over texts of all kinds. `curve` is (nodes, seconds) of passes, the first of one node."""
    costs = [(nodes, seconds / curve[0][1]) for nodes, seconds in curve if most is None or nodes <= most]
    gains = []
    for chance in MIXED:
        expected = list(accumulate(accumulate([chance] * costs[-1][0], mul, initial=1.0)))
        gains.append(max(expected[nodes - 1] / cost for nodes, cost in costs))
    return sum(gains) / len(gains)


NO_SIZE = "No pass of several tokens gives this model's plain bits here, so nothing is drafted. Load it with --exact auto."

MOST_COST = 1.15
"""Highest cost of `identical` under `--exact auto`, as a ratio of speeds."""


def promise(able: Capabilities, rounding: Rounding, *, hold: bool) -> Capabilities:
    """Add what is promised of a model's texts to its capabilities. `hold`: hold passes to sizes with equal bits, where
    not all have them."""
    able = replace(able, equal=rounding.equal, measured=rounding.measured, turned=rounding.turned)
    if rounding.exact:
        return replace(able, near_tie=rounding.side if able.tree else 0.0)
    if not hold:
        return replace(able, exact=False)
    reasons = {**able.reasons, "bits": NO_SIZE} if rounding.most == 1 else able.reasons
    return replace(able, most=rounding.most, reasons=reasons)
