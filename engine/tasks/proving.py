"""The task `prove`: which passes give plain decoding's bits, and how often others turn a choice: on more text than a load
reads."""

from __future__ import annotations

from typing import Any

from ...backends.rounding import Measurement
from .work import Job

STEPS = 64
"""Tokens that are compared behind each text, in passes of every size."""
CONTEXTS = (16, 220, 480)
"""Tokens of the texts."""


def prove(job: Job) -> dict[str, Any]:
    """Measure the rounding of the loaded model's passes.

    Returns:
        label: of exact methods.
        equal: sizes of chains with equal bits.
        measured, turned: tokens that were compared, and those of which another token came out on top.
        broken: whether what the load promised does not hold here.
    """
    model = job.model
    able = model.info.capabilities
    if not able.chain:
        return {"label": able.identical, "equal": [], "measured": 0, "turned": 0, "broken": False}
    session = model.open_session(max(CONTEXTS) + 2 * STEPS)
    text = model.proof_ids(max(CONTEXTS) + STEPS + 1)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        job.check()
        job.report({"passes": done})

    try:
        measurement = Measurement(session, tick, tree=able.tree)
        for length in CONTEXTS:
            if length + STEPS < session.context:
                measurement.add(text[: length + STEPS + 1], length)
        found = measurement.found()
    finally:
        session.close()
    promised = bool(able.equal) and able.exact
    held = found.exact if able.most is None else found.most >= able.most
    return {
        "label": able.identical,
        "equal": list(found.equal),
        "measured": found.measured,
        "turned": found.turned,
        "broken": promised and not held,
    }
