"""The target's choice of a token: the settings, the scores that it picks by, and the random numbers.

The numbers are counter-based: every draw is a pure function of (seed, position, purpose, attempt), in any process and order.
Integers only, so that a single number needs no runtime; `choose.py` computes whole vocabularies of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..option import NEXT_ANSWER, declared_options, option

if TYPE_CHECKING:
    from .grammars.matcher import Mask

MASK64 = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 / the golden ratio: the step between two numbers of a SplitMix64 stream."""
MIX_A, MIX_B = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Multipliers of SplitMix64's finalizer (Stafford's mix 13), which passes BigCrush on a counter."""

UNIFORM_BITS = 52
"""Bits of a uniform number: (n + 1/2) / 2^52 is exact in float64, never 0 or 1; with 53 bits the last rounds to 1."""


to_sample = partial(option, group="Sampling and limits", when=NEXT_ANSWER)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Settings of the target's choice of a token. Filters apply in the order listed, which is that of transformers.

    The pick is a pure function of logits, path, these settings and the absolute position (see `backends/choose.py`), so a seed
    gives the same text under every method labelled identical.
    """

    temperature: float = to_sample(
        0.0, "0 picks the most probable token (greedy); 1 samples from the model's own distribution.", "X", low=0
    )
    top_k: int = to_sample(0, "Keep the K most probable tokens; 0 keeps all.", "K", low=0, title="Top-k")
    top_p: float = to_sample(
        1.0, "Keep the fewest most probable tokens that reach this total probability.", "X", above=0, high=1, title="Top-p"
    )
    min_p: float = to_sample(
        0.0, "Keep tokens at least this probable, as a share of the best one.", "X", low=0, high=1, title="Min-p"
    )
    repetition_penalty: float = to_sample(1.0, "Above 1: avoid tokens that have already occurred.", "X", above=0)
    """Divides the positive logits of tokens already on the path, and multiplies the negative ones."""
    seed: int = to_sample(0, "The same seed gives the same text.", "N", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        """Reject values that are out of range. A seed may be any integer: drafts draw with keys of 64 bits.

        Raises:
            UserError: names the setting and its range.
        """
        for name, declared in declared_options(Sampling).items():
            if name != "seed":
                declared.parse(getattr(self, name), name)

    @property
    def greedy(self) -> bool:
        """Whether the pick is simply the argmax."""
        return self.temperature == 0

    @property
    def filters(self) -> bool:
        """Whether it samples from a part of the vocabulary."""
        return not self.greedy and (self.top_k > 0 or self.top_p < 1 or self.min_p > 0)

    @property
    def uses_history(self) -> bool:
        """Whether the pick depends on the tokens before it (penalties)."""
        return self.repetition_penalty != 1


UNCONSTRAINED = "This model's answers cannot follow a schema here. Load another one, or leave the schema out."


class Scores(ABC):
    """The target's logits at some nodes. They stay in the runtime's memory; usually only token ids leave it.

    `nodes[i]` is the node of row i; `positions[i]` is the absolute position of the token that the row predicts (the node's own
    position + 1).
    """

    nodes: tuple[int, ...]
    positions: tuple[int, ...]

    @abstractmethod
    def choose(self, sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[int]:
        """Pick the target's token after each row's node. `histories`: for each row, all tokens up to and including its
        node; needed only if `sampling.uses_history`."""

    @abstractmethod
    def top(self, k: int) -> list[list[tuple[int, float]]]:
        """List for each row the k most probable (token id, natural log-probability) pairs, best first, before any filter."""

    @abstractmethod
    def candidates(
        self,
        count: int,
        sampling: Sampling,
        histories: Sequence[Sequence[int]] | None = None,
        *,
        attempts: Sequence[int] | None = None,
    ) -> list[list[tuple[int, float]]]:
        """For each row, up to `count` guesses (token id, probability) as a drafter makes them: the most probable tokens at
        temperature 0, otherwise a sample without replacement, in the order drawn. The noise is the target's own at that
        position, so that the first guess is `choose`'s pick; with `attempts`, a number for each row, it is the drafter's own
        and another one for each number, as acceptance rules need."""

    @abstractmethod
    def probs(self, row: int, sampling: Sampling | None = None, history: Sequence[int] | None = None) -> Any:
        """Return the probabilities [vocab] (numpy float32) of one row: the plain softmax, or after `sampling`'s filters."""

    def kept(self) -> Scores:
        """Copy the scores, so that they stay valid after the session's next pass."""
        return self

    def as_seen(self, vocabulary: int, later: int = 0) -> Scores:
        """The same as a target sees it that has only the first `vocabulary` token ids, and whose text is longer by `later`
        tokens."""
        return self

    def near_ties(
        self,
        rows: Sequence[int],
        sampling: Sampling,
        bound: float,
        histories: Sequence[Sequence[int]] | None = None,
    ) -> list[bool]:
        """For each of some rows, whether its pick could be another one if the difference of any two logits moved by less than
        `bound` (noise and filters included). Never where nothing rounds."""
        return [False] * len(rows)

    def masked(self, rows: Sequence[int], masks: Sequence[Mask]) -> Scores:
        """Restrict some rows to the tokens of a mask each; all others have no probability.

        Raises:
            UserError: these scores cannot be masked.
        """
        raise UserError(UNCONSTRAINED)

    @abstractmethod
    def gap(self, row: int, token: int) -> float:
        """Distance of `token`'s logit from the row's highest: the size of a near tie; 0 for the argmax itself."""


class Purpose(IntEnum):
    """Purpose of a random number; different purposes get independent numbers at the same position."""

    CHOOSE = 0
    """The target's own pick (shared with a drafter that samples under exact matching)."""
    DRAFT = 1
    """A drafter's sample under an acceptance rule."""
    ACCEPT = 2
    """The uniform number that an acceptance rule compares with p / q."""
    RESIDUAL = 3
    """The draw from what is left after a rejection."""


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * MIX_A) & MASK64
    z = ((z ^ (z >> 27)) * MIX_B) & MASK64
    return z ^ (z >> 31)


def noise_key(seed: int, position: int, purpose: Purpose = Purpose.CHOOSE, attempt: int = 0) -> int:
    """Derive the 64-bit key of the stream of random numbers for a seed (modulo 2^64), the absolute position of the
    token to pick, a purpose, and an attempt, which counts draws for one purpose at one position (the children of a
    node, say)."""
    key = _mix((seed + GOLDEN) & MASK64)
    for part in (position, int(purpose), attempt):
        key = _mix(((key ^ (part & MASK64)) + GOLDEN) & MASK64)
    return key


def uniform(seed: int, position: int, purpose: Purpose, attempt: int = 0) -> float:
    """Draw one number of (0, 1) for each (seed, position, purpose, attempt), independent of the tokens' noise there."""
    # Token t takes number t + 1 of the stream, so number 0 is free.
    return ((_mix(noise_key(seed, position, purpose, attempt)) >> (64 - UNIFORM_BITS)) + 0.5) * 2.0**-UNIFORM_BITS


def gumbel_of(seed: int, position: int, token: int) -> float:
    """Compute the standard Gumbel noise that `choose` adds to one token's log-probability."""
    bits = _mix((noise_key(seed, position) + (token + 1) * GOLDEN) & MASK64) >> (64 - UNIFORM_BITS)
    return -math.log(-math.log((bits + 0.5) * 2.0**-UNIFORM_BITS))
