"""Counter-based random numbers: every draw is a pure function of (seed, position, purpose, attempt), in any process, in any
order. Integers only, so that whoever needs one number needs no runtime; `choose.py` computes whole vocabularies of them."""

from __future__ import annotations

import math
from enum import IntEnum

MASK64 = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 / the golden ratio: the step between two numbers of a SplitMix64 stream."""
MIX_A, MIX_B = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Multipliers of SplitMix64's finalizer (Stafford's mix 13), which passes BigCrush on a counter."""

UNIFORM_BITS = 52
"""Bits of a uniform number: (n + 1/2) / 2^52 is exact in float64, never 0 or 1; with 53 bits the last rounds to 1."""


class Purpose(IntEnum):
    """What a number is drawn for; different purposes get independent numbers at the same position."""

    CHOOSE = 0
    """The target's own pick (shared with a drafter that samples under exact matching)."""
    DRAFT = 1
    """A drafter's sample under an acceptance rule."""
    ACCEPT = 2
    """The uniform number that an acceptance rule compares with p / q."""
    RESIDUAL = 3
    """The draw from what is left after a rejection."""


def _mix(z: int) -> int:
    """SplitMix64's finalizer on one 64-bit integer."""
    z = ((z ^ (z >> 30)) * MIX_A) & MASK64
    z = ((z ^ (z >> 27)) * MIX_B) & MASK64
    return z ^ (z >> 31)


def noise_key(seed: int, position: int, purpose: Purpose = Purpose.CHOOSE, attempt: int = 0) -> int:
    """The 64-bit key of the stream of random numbers that belongs to these four.

    Args:
        seed: any integer; taken modulo 2^64.
        position: absolute position of the token to pick.
        purpose: what the numbers are for.
        attempt: counts draws for one purpose at one position (the children of a node, say).
    """
    key = _mix((seed + GOLDEN) & MASK64)
    for part in (position, int(purpose), attempt):
        key = _mix(((key ^ (part & MASK64)) + GOLDEN) & MASK64)
    return key


def uniform(seed: int, position: int, purpose: Purpose, attempt: int = 0) -> float:
    """One number of (0, 1) for each (seed, position, purpose, attempt), independent of the tokens' noise there."""
    # Token t takes number t + 1 of the stream, so number 0 is free.
    return ((_mix(noise_key(seed, position, purpose, attempt)) >> (64 - UNIFORM_BITS)) + 0.5) * 2.0**-UNIFORM_BITS


def gumbel_of(seed: int, position: int, token: int) -> float:
    """The standard Gumbel noise that `choose` adds to one token's log-probability."""
    bits = _mix((noise_key(seed, position) + (token + 1) * GOLDEN) & MASK64) >> (64 - UNIFORM_BITS)
    return -math.log(-math.log((bits + 0.5) * 2.0**-UNIFORM_BITS))
