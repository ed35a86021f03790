"""Answers of a model that thinks, as the engine sends them."""

from __future__ import annotations

import random
import re

from specchat.backends.info import Thinking
from specchat.engine.messages import StepRecord

THOUGHT = (
    "Okay, the user asks how prompt lookup works, in a few words. Prompt lookup looks for the last few tokens earlier in the "
    "text and drafts what followed them there. So the model then checks all drafted tokens in one forward pass.\n\nShould I "
    "show the code? They said a few words, so one example is enough. The answer never changes: the model checks all drafted "
    "tokens in one forward pass, and what it would not have said itself is thrown away.\n\nI will say where it pays, then stop."
)

THINKING = Thinking(("on", "off", "low"), "on", ("<think>", "</think>"))
"""The description of thoughts that a model gives."""

MARK = (1, "")


def thinking_steps(
    thought: str, answer: str, *, method: str = "lookup", closed: bool = True, size: int = 6, seed: int = 1
) -> list[StepRecord]:
    """A thought between its marks, then the answer, as steps of one to `size` tokens that heed no seam; `closed`: the thought
    comes to its end."""
    pick = random.Random(seed)
    units = [
        MARK,
        *((1, word) for word in _words(thought)),
        *([MARK] if closed else []),
        *((0, word) for word in _words(answer)),
    ]
    out: list[StepRecord] = []
    at = 0
    while units:
        count = min(size, pick.choice((1, 1, 2, 3, 6)))
        step_units, units = units[:count], units[count:]
        rows: list[list[int]] = []
        for part, text in step_units:
            if not rows or rows[-1][0] != part:
                rows.append([part, 0, 0])
            rows[-1][1] += len(text)
            rows[-1][2] += 1
        if step_units[-1] == MARK and out:  # what is held back next is the answer's
            rows.append([0, 0, 0])
        text = "".join(text for _, text in step_units)
        accepted, drafted = len(step_units) - 1, 6 if size > 1 else 0
        ids, times = list(range(at, at + len(step_units))), (0.0001, 0.03, 0.0009)
        at += len(step_units)
        out.append(StepRecord(method, ids, text, drafted, accepted, 1 + drafted, *times, spans=rows))
    return out


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S{1,5}|\s+", text)
