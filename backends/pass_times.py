"""Seconds of passes by their number of nodes: a curve that is measured at load and kept for each file.

It is no line, and need not rise. llama.cpp's Q8_0 takes 2.6 times as long for two nodes as for one, and 3.8 for eight: from two
rows on another kernel computes. How many tokens are worth drafting depends on the whole curve.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..errors import UserError
from .base import ROOT, Session
from .kept import GIVEN, keep, recall

Curve = tuple[tuple[int, float], ...]
"""(nodes, seconds), by rising nodes."""

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FIRST_SIZES = (1, 2, 4, 8, 16)
"""Those that are measured on a model that is too slow for all of them."""

BEHIND = 64
"""Tokens in the cache meanwhile."""
TOKENS = BEHIND + max(SIZES)
"""Token ids that a measurement takes."""

ROUNDS = 2
"""Rounds over all sizes in an idle machine, of which the least counts; the first of them warms up."""
TWICE = 8
"""Largest size that is measured in every round; a larger one again only where a round was disturbed."""
MOST_ROUNDS = 4
SECONDS = 1.5
"""After which no further round begins, and, in the first one, only FIRST_SIZES are measured."""

BUSY = 0.85
"""A round in which the thread computed for less than this share of the time was disturbed by other programs: it is measured
again."""


def pass_seconds(session: Session, text: Sequence[int], tick: Callable[[], None], *, cpu: bool) -> Curve:
    """Measure the seconds of passes by their nodes: the least of some rounds.

    On a CPU only the computing time of this thread counts, in which it takes its share of all work: other programs do not.

    Args:
        session: its text goes; where it is too small, there are fewer sizes.
        text: TOKENS ids of a text.
        tick: called after each pass; may raise Cancelled.
        cpu: whether the model runs on the CPU.
    """
    if curve := given_curve():
        return curve
    sizes = [n for n in SIZES if BEHIND + n <= session.context]
    if not sizes:
        return ()
    clock = time.thread_time if cpu else time.perf_counter
    session.rewind(0)
    session.prefill(text[:BEHIND])
    tick()
    least: dict[int, float] = {}
    first = time.perf_counter()
    quiet = rounds = 0
    while rounds < MOST_ROUNDS and quiet < ROUNDS and (time.perf_counter() - first < SECONDS or not rounds):
        total = 0.0
        started = time.perf_counter()
        # The sizes that count most come first, so that time can run out on the others.
        for n in sorted(sizes, key=lambda n: n not in FIRST_SIZES):
            if n > TWICE and n in least and quiet == rounds:
                continue
            if n not in FIRST_SIZES and n not in least and time.perf_counter() - first > SECONDS:
                continue
            start = clock()
            session.evaluate(text[BEHIND : BEHIND + n], range(ROOT, n - 1))
            seconds = clock() - start
            session.commit(())
            tick()
            total += seconds
            least[n] = min(seconds, least.get(n, seconds))
        rounds += 1
        quiet += total > BUSY * (time.perf_counter() - started)
    session.rewind(0)
    return tuple(sorted(least.items()))


def kept_curve(about: Sequence[Any], measure: Callable[[], Curve]) -> tuple[Curve, float]:
    """Recall the curve of a file (see `keep`), or measure it and keep it; return it with the Unix time of its measurement."""
    measurement = recall("passes", about)
    with suppress(ValueError, TypeError, KeyError):
        curve = tuple((int(nodes), float(seconds)) for nodes, seconds in measurement["seconds"])
        if all(nodes > 0 and seconds > 0 for nodes, seconds in curve):
            return curve, float(measurement["measured"])
    curve = measure()
    keep("passes", about, {"seconds": curve})
    return curve, time.time()


def given_curve() -> Curve:
    """Read the curve that a variable gives, such as `1:6.5 2:9 8:17.6`: nodes and milliseconds. Empty if it gives none.

    Raises:
        UserError: it gives something else.
    """
    text = os.environ.get(GIVEN, "")
    if not text:
        return ()
    try:
        curve = tuple(
            sorted(
                (int(nodes), float(milliseconds) / 1000) for nodes, milliseconds in (part.split(":") for part in text.split())
            )
        )
    except ValueError:
        curve = ()
    if not curve or curve[0][0] != 1 or not all(seconds > 0 for _, seconds in curve):
        raise UserError(f"{GIVEN} takes nodes and milliseconds of passes such as 1:6.5 2:9 8:17.6, not {text!r}.")
    return curve
