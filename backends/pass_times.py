"""Seconds of passes by their number of nodes: a curve that is measured at load and kept for each file.

It is no line, and need not rise. llama.cpp's Q8_0 takes 2.6 times as long for two nodes as for one, and 3.8 for eight: from two
rows on another kernel computes. How many tokens are worth drafting depends on the whole curve.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import __version__
from ..plain_file import cache_folder, read_json, write_json
from .base import ROOT, Session

Curve = tuple[tuple[int, float], ...]
"""(nodes, seconds), by rising nodes."""

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FIRST_SIZES = (1, 2, 4, 8, 16)
"""Those that are measured on a model that is too slow for all of them."""

TIMED = 50_000_000
"""Parameters of a model whose passes are timed."""

BEHIND = 64
"""Tokens in the cache meanwhile."""
TOKENS = BEHIND + max(SIZES)
"""How many token ids a measurement takes."""

ROUNDS = 2
"""Rounds over all sizes in an idle machine, of which the least counts; the first of them warms up."""
MOST_ROUNDS = 4
SECONDS = 1.5
"""After which no further round begins, and, in the first one, only FIRST_SIZES are measured."""

BUSY = 0.85
"""A round in which the thread computed for less than this share of the time was disturbed by other programs: it is measured
again."""

OLDEST = 30 * 86_400
"""Seconds for which a curve is kept."""


def pass_seconds(session: Session, text: Sequence[int], tick: Callable[[], None], *, cpu: bool) -> Curve:
    """Measure what passes of a few nodes take here and now: the least of some rounds.

    On a CPU the time is that which this thread computes, of which it has a share in all that several do: what other programs
    take is not in it.

    Args:
        session: what was in it goes; where it is too small, there are fewer sizes.
        text: TOKENS ids of a text.
        tick: told after each pass; may raise Cancelled.
        cpu: whether the model runs on the CPU.
    """
    sizes = [n for n in SIZES if BEHIND + n <= session.context]
    if not sizes:
        return ()
    clock = time.thread_time if cpu else time.perf_counter
    session.rewind(0)
    session.prefill(text[:BEHIND])
    tick()
    least: dict[int, float] = {}
    begun = time.perf_counter()
    quiet = rounds = 0
    while rounds < MOST_ROUNDS and quiet < ROUNDS and (time.perf_counter() - begun < SECONDS or not rounds):
        taken = 0.0
        started = time.perf_counter()
        # The sizes that count most come first, so that time can run out on the others.
        for n in sorted(sizes, key=lambda n: n not in FIRST_SIZES):
            if n not in FIRST_SIZES and n not in least and time.perf_counter() - begun > SECONDS:
                continue
            start = clock()
            session.evaluate(text[BEHIND : BEHIND + n], range(ROOT, n - 1))
            seconds = clock() - start
            session.commit(())
            tick()
            taken += seconds
            least[n] = min(seconds, least.get(n, seconds))
        rounds += 1
        quiet += taken > BUSY * (time.perf_counter() - started)
    session.rewind(0)
    return tuple(sorted(least.items()))


def identity(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Name each file with its size and when it was changed."""
    stats = [(str(file), file.stat()) for file in sorted(files) if file.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def kept_curve(about: Sequence[Any], measure: Callable[[], Curve]) -> tuple[Curve, float]:
    """Read the curve that was kept of a file, or measure it and keep it.

    Args:
        about: plain data that is different where passes may take another time: the file, the runtime's version, threads,
            settings. Ours and the machine's are added.
        measure: gives the curve.

    Returns:
        the curve, and when it was measured (Unix time).
    """
    machine = platform.node(), platform.machine(), os.cpu_count()
    key = hashlib.sha256(json.dumps((__version__, *machine, *about), sort_keys=True, default=str).encode()).hexdigest()[:16]
    path = cache_folder() / "passes" / f"{key}.json"
    now = time.time()
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        kept = read_json(path)
        curve = tuple((int(nodes), float(seconds)) for nodes, seconds in kept["seconds"])
        measured = float(kept["measured"])
        if 0 <= now - measured < OLDEST and all(nodes > 0 and seconds > 0 for nodes, seconds in curve):
            return curve, measured
    curve = measure()
    with suppress(OSError):
        write_json(path, {"measured": now, "seconds": curve})
    return curve, now
