"""The task `costs`: what a pass over n nodes takes, measured on the loaded model."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from ...backends.base import PREFILL_CHUNK, ROOT, Sampling, Session
from .work import Job

NODES = (1, 2, 3, 4, 6, 8, 11, 16, 24, 32, 48, 64)
"""Sizes of trees to measure."""

PREFIX = 128
"""Tokens in the cache meanwhile: a short chat."""

SPREAD = 64
"""Lengths of the text over which passes are spread: some runtimes divide a pass whose nodes lie across a multiple of this."""

FAR, FAR_NODES = 1024, (1, 16)
"""Tokens in the cache of a long chat, and sizes that tell how much slower its passes are."""

PREFILLS = (32, 512)
"""Lengths of the two prompts that give the line of the prefill: a long one's tokens cost more each."""


def measure_costs(job: Job, nodes: Sequence[int] = NODES, rounds: int = 9) -> dict[str, Any]:
    """Means over `rounds` passes of each size, all sizes in every round so that noise is shared, behind texts of other lengths.

    A pass is what decoding does: evaluate a chain of nodes, choose at each, forget them.

    Returns:
        passes ([nodes, seconds] …); what a curve has besides them (see `LatencyCurve`); and how many passes were run.
    """
    model = job.model
    limit = model.info.context
    prefix = min(PREFIX, limit // 4)
    sizes = [n for n in sorted(set(nodes)) if 0 < n <= limit - prefix - 1] if model.info.capabilities.chain else [1]
    draw = random.Random(0)
    tokens = [draw.randrange(model.info.vocabulary) for _ in range(limit if limit < 512 else 512)]
    session = model.open_session(min(limit, prefix + SPREAD + max([*sizes, *PREFILLS]) + PREFILL_CHUNK))
    later = None
    if limit > 2 * FAR and set(FAR_NODES) <= set(sizes):
        later = model.open_session(FAR + SPREAD + PREFILL_CHUNK)
    far: dict[int, list[float]] = {n: [] for n in FAR_NODES}
    passes: dict[int, list[float]] = {n: [] for n in sizes}
    lengths = [min(length, limit - 1) for length in PREFILLS]
    prefills: dict[int, list[float]] = {length: [] for length in lengths}
    try:
        if later is not None:
            later.prefill((tokens * FAR)[: FAR + SPREAD], cancelled=job.cancelled)
        # The first round warms up: memory is found, kernels are chosen.
        for turn in range(rounds + 1):
            for length in prefills if turn <= (rounds + 1) // 2 else ():
                job.check()
                seconds = _prefill(session, tokens[:length])
                if turn:
                    prefills[length].append(seconds)
            session.rewind(0)
            back = turn * SPREAD // (rounds + 1)
            session.prefill((tokens * prefix)[: max(1, min(prefix + SPREAD // 2 - back, limit - max(sizes) - 1))])
            if later is not None:
                later.rewind(FAR + SPREAD // 2 - back)
            for n in draw.sample(sizes, len(sizes)):
                job.check()
                seconds = _pass(session, tokens[-n:])
                if turn:
                    passes[n].append(seconds)
                if later is not None and n in far:  # the two beside each other
                    seconds = _pass(later, tokens[-n:])
                    if turn:
                        far[n].append(seconds)
            job.report({"done": turn, "total": rounds})
    finally:
        session.close()
        if later is not None:
            later.close()
    (short, fast), (long, slow) = ((length, median(times)) for length, times in prefills.items())
    token = max(0.0, (slow - fast) / (long - short))
    return {
        "passes": [[n, _mean(times)] for n, times in passes.items()],
        "prefill_start": max(0.0, fast - token * short),
        "prefill_token": token,
        "context": prefix,
        **({} if later is None else _context({n: _mean(far[n]) - _mean(passes[n]) for n in far}, FAR - prefix)),
        "evaluated": (rounds + 1) * (len(sizes) + 1 + (0 if later is None else len(far)))
        + ((rounds + 1) // 2 + 1) * len(prefills),
    }


def _mean(times: Sequence[float]) -> float:
    """The mean, an interrupted pass counting as half as long again as the median."""
    most = 1.5 * median(times)
    return fmean(min(seconds, most) for seconds in times)


def _context(more: dict[int, float], tokens: int) -> dict[str, float]:
    """What each further token in the cache adds to a pass, and to each of its nodes after the first.

    Args:
        more: seconds that passes of so many nodes take longer in a long chat than in a short one.
        tokens: how much longer it is.
    """
    one, nodes = more[1], max(more)
    return {"context_pass": max(0.0, one / tokens), "context_node": max(0.0, (more[nodes] - one) / tokens / (nodes - 1))}


def _pass(session: Session, tokens: Sequence[int]) -> float:
    start = time.perf_counter()
    scores = session.evaluate(tokens, range(ROOT, len(tokens) - 1))
    scores.choose(Sampling())
    session.commit(())
    return time.perf_counter() - start


def _prefill(session: Session, tokens: Sequence[int]) -> float:
    session.rewind(0)
    start = time.perf_counter()
    session.evaluate(tokens, range(ROOT, len(tokens) - 1), rows=(len(tokens) - 1,)).choose(Sampling())
    return time.perf_counter() - start
