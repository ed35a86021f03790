"""The display of thoughts, and the line about one."""

from __future__ import annotations

from typing import Literal, get_args

from ...engine.catalog import Share
from ...errors import counted
from ..text.amounts import time_of

Thoughts = Literal["open", "folded", "hidden"]
"""Display of thoughts: whole, folded to a line once the answer begins, or not at all."""


def parse_thoughts(name: str) -> Thoughts:
    """Return the display that a checked setting names."""
    return next(display for display in get_args(Thoughts) if display == name)


THOUGHT_FOR = "Thought for {}"
"""Beginning of the line about a thought, with a place for the time."""


def thought_line(spent: Share, lead: str = THOUGHT_FOR, *, passes: bool = True) -> str:
    """Format a thought's figures: `Thought for 12 s · 340 tokens · 3.1 tokens a pass`.

    Args:
        passes: whether its passes are known.
    """
    parts = [lead.format(clock(spent.seconds)), counted(spent.tokens, "token")]
    if passes and spent.passes:
        parts.append(f"{spent.tokens_per_pass:.1f} tokens a pass")
    return " · ".join(parts)


def clock(seconds: float) -> str:
    """Format the duration of a thought: `under 0.1 s`, `0.4 s`, `12 s`, `2 min`."""
    if seconds < 0.05:
        return "under 0.1 s"
    return f"{seconds:.1f} s" if seconds < 9.95 else time_of(seconds)
