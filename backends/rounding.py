"""Which passes give the bits of plain decoding: measured at load, on a real text, for every runtime.

A pass of many rows may round otherwise than a pass of one. Then a near tie may turn, and the keys and values that the pass
leaves in the cache have moved as well: nothing decided on that cache afterwards repairs it. A guard that decided near ties in
passes of one node left 12 of 40 answers different on a bfloat16 GGUF (17 without). So *identical* is promised by the sizes of
passes: where all sizes have equal bits, methods draft as they like, and where small ones have, passes are held to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul

import torch
from torch import Tensor

from ..errors import Cancelled
from .base import ROOT, Session
from .info import Capabilities
from .options import StageProgress

VERSION = 1
"""Raised with every change of what a load proves or measures: what is kept of earlier loads no longer counts."""

PREFIX = 6
"""Tokens of a proof before its tree: more than `hf/proving/lengths.py` has in its windows, so that these matter."""
PARENTS = (ROOT, 0, 0, 1, 2)
"""The tree: one root, two children, one grandchild below each."""
PATHS = ((0, 1, 3), (0, 2, 4))

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
"""How many token ids a measurement needs, and slots besides a tree's."""

PASSES = len(CONTEXTS) * (STEPS + sum(-(-STEPS // size) for size in SIZES) + 4)

SAFETY = 3.0
"""Times the most that a lead was seen to move within which near ties are looked for: a few dozen tokens were measured."""

LEAST = 0.05
"""Least near tie, in units of the logits' standard deviation. Where activations are rounded to eight bits, or the cache to
sixteen, most tokens move little or not at all and a few by 0.002 to 0.014: a measurement of few tokens misses them."""


def example(vocabulary: int, count: int) -> list[int]:
    """Return ids spread over a vocabulary, for models that were made without a tokenizer."""
    return [(7919 * (i + 1)) % max(2, vocabulary - 1) for i in range(count)]


def ticking(most: int, progress: StageProgress | None, cancelled: Callable[[], bool] | None) -> Callable[[], None]:
    """Return what a proof of `most` passes calls after each: it reports progress, and raises Cancelled where asked to."""
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
    """How passes of many nodes differ from passes of one, over chains of passes as answers have them."""

    equal: tuple[int, ...]
    """Sizes of SIZES whose chains had equal bits in every text."""
    rest: bool
    """Whether trees along their first path, and the prompt's end in one pass with a draft, had equal bits as well."""
    measured: int
    """Tokens that were measured, by any size."""
    turned: int
    """How often another token had the highest logit."""
    highest: float
    """Greatest logit, without its sign."""
    side: float
    """How close two choices beside a tree's first path must be for the next pass to decide, in logits."""

    @property
    def exact(self) -> bool:
        """Whether passes of every size have equal bits."""
        return self.rest and self.equal == SIZES

    @property
    def most(self) -> int:
        """Nodes of the largest pass up to which every size has equal bits; 1 if there is none."""
        largest = 1
        for size in SIZES:
            if size not in self.equal:
                break
            largest = size
        return largest


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


class Measurement:
    """Compares passes of several nodes with passes of one in a session.

    Args:
        session: what was in it goes; if it holds fewer than TOKENS and a tree, the texts are shorter.
        tick: called after each pass; may raise Cancelled.
        tree: whether branching trees work.
    """

    def __init__(self, session: Session, tick: Callable[[], None], *, tree: bool) -> None:
        self._session, self._tick, self._tree = session, tick, tree
        self._equal = set(SIZES)
        self._rest = True
        self._measured = self._turned = 0
        self._highest = self._spread = self._side = 0.0

    def add(self, text: Sequence[int], length: int) -> None:
        """Measure the steps of a text behind its first `length` tokens.

        Args:
            text: ids [length + steps + 1]; the last one is a wrong guess.
            length: tokens before the steps.
        """
        session, steps, wrong = self._session, list(text[length:-1]), text[-1]
        session.align(text[:length])
        session.prefill(text[session.length : length])
        self._tick()
        alone = self._chains(steps, 1)
        plain, top = torch.cat(alone), torch.cat(alone).topk(2, dim=-1)
        self._highest, self._spread = max(self._highest, float(plain.abs().max())), max(self._spread, float(plain.std()))
        for size in SIZES:
            session.rewind(length)
            rows = torch.cat(self._chains(steps, size))
            if not torch.equal(rows, plain):
                self._equal.discard(size)
            self._measured += len(rows)
            # Equal logits are no turn: half types have many.
            self._turned += int((rows.amax(-1) > rows.gather(1, top.indices[:, :1])[:, 0]).sum())
        if self._tree and len(steps) > 3:  # as a tree's first path, with wrong guesses beside it
            session.rewind(length)
            nodes, parents, path = [*steps[:2], wrong, steps[2], wrong, wrong], [ROOT, 0, 0, 1, 1, 3], (0, 1, 3)
            rows = self._logits(nodes, parents, path)
            kept = session.exact(path)
            self._rest = self._rest and torch.equal(rows[:kept], plain[:kept])
            # Beside the first path, which is wrong from its second node on.
            session.rewind(length)
            rows = self._logits([steps[0], wrong, wrong, *steps[1:4]], [ROOT, 0, 1, 0, 3, 4], (3, 4, 5))
            moved = _leads(rows, top.indices[1:4]) - (top.values[1:4, 0] - top.values[1:4, 1])
            self._side = max(self._side, float(moved.abs().max()))
        # Behind the prompt's end, in its pass.
        before = min(length, BEFORE)
        session.rewind(length - before)
        chain = [*text[length - before : length], *steps]
        rows = self._logits(chain, range(ROOT, len(chain) - 1), range(before, len(chain)))
        self._rest = self._rest and torch.equal(rows, plain)
        session.rewind(length - before)

    def found(self) -> Rounding:
        """Return what all texts gave; the session is emptied."""
        self._session.rewind(0)
        return Rounding(
            equal=tuple(size for size in SIZES if size in self._equal),
            rest=self._rest,
            measured=self._measured,
            turned=self._turned,
            highest=self._highest,
            side=max(SAFETY * self._side, LEAST * self._spread),
        )

    def _chains(self, steps: Sequence[int], size: int) -> list[Tensor]:
        """Logits of all steps, evaluated and committed in passes of `size`."""
        rows = []
        for begin in range(0, len(steps), size):
            part = steps[begin : begin + size]
            rows.append(self._logits(part, range(ROOT, len(part) - 1), range(len(part))))
            self._session.commit(range(len(part)))
        return rows

    def _logits(self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int]) -> Tensor:
        logits: Tensor = self._session.evaluate(tokens, parents, rows).logits  # type: ignore[attr-defined]
        self._tick()
        return logits.float().clone()


def _leads(rows: Tensor, best: Tensor) -> Tensor:
    """Return how far the logits [n, vocab] of the better of two tokens [n, 2] lie above those of the other [n]."""
    return rows.gather(1, best[:, :1])[:, 0] - rows.gather(1, best[:, 1:])[:, 0]


def measure(
    session: Session, text: Sequence[int], tick: Callable[[], None], *, tree: bool, contexts: Sequence[int] = CONTEXTS
) -> Rounding:
    """Measure the rounding of passes behind texts of several lengths.

    Args:
        session, tick, tree: as of `Measurement`.
        text: TOKENS ids of a text.
        contexts: lengths of the texts.
    """
    measurement = Measurement(session, tick, tree=tree)
    room = session.context - STEPS - 3
    for length in sorted({min(length, room) for length in contexts}):
        measurement.add(text[: length + STEPS + 1], length)
    return measurement.found()


MIXED = (0.3, 0.6, 0.9)
"""Chances of a draft token in open text, in text that repeats some of its words, and in copies."""


def drafting_gain(curve: Sequence[tuple[int, float]], most: int | None = None) -> float:
    """Tokens for the time of one plain pass that the best chains bring, as a mean over texts of all kinds.

    Args:
        curve: (nodes, seconds) of passes, the first of one node.
        most: nodes of the largest pass; None for any.
    """
    costs = [(nodes, seconds / curve[0][1]) for nodes, seconds in curve if most is None or nodes <= most]
    gains = []
    for chance in MIXED:
        expected = list(accumulate(accumulate([chance] * costs[-1][0], mul, initial=1.0)))
        gains.append(max(expected[nodes - 1] / cost for nodes, cost in costs))
    return sum(gains) / len(gains)


NO_SIZE = "No pass of several tokens gives this model's plain bits here, so nothing is drafted. Load it with --exact auto."

MOST_COST = 1.15
"""What `identical` may cost under `--exact auto`, as a ratio of speeds."""


def promise(found: Capabilities, rounding: Rounding, *, hold: bool) -> Capabilities:
    """Return what a model can do with what is promised of its texts.

    Args:
        found: what it can do.
        rounding: as measured.
        hold: hold passes to sizes with equal bits, where not all have them.
    """
    found = replace(found, equal=rounding.equal, measured=rounding.measured, turned=rounding.turned)
    if rounding.exact:
        return replace(found, near_tie=rounding.side if found.tree else 0.0)
    if not hold:
        return replace(found, exact=False)
    reasons = {**found.reasons, "bits": NO_SIZE} if rounding.most == 1 else found.reasons
    return replace(found, most=rounding.most, reasons=reasons)
