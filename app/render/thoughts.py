"""How thoughts are shown, and what is told of one on a line."""

from __future__ import annotations

from typing import Literal, get_args

from ...engine.catalog import Share
from ...errors import counted
from ..text.cells import fit, width

Thoughts = Literal["open", "folded", "hidden"]
"""How thoughts are shown: whole, as a line once the answer begins, or not at all."""


def thoughts_named(name: str) -> Thoughts:
    """The way that a setting names, which is checked already."""
    return next(way for way in get_args(Thoughts) if way == name)


THOUGHT_FOR = "Thought for {}"
"""What leads the line about a thought, with the time in it."""


def thought_line(spent: Share, lead: str = THOUGHT_FOR, cells: int = 100, *, passes: bool = True) -> str:
    """What a thought came to, on a line: `Thought for 12 s · 340 tokens · 3.1 tokens a pass`, as much as there is room for;
    `passes`: whether they are known."""
    parts = [lead.format(clock(spent.seconds)), counted(spent.tokens, "token")]
    if passes and spent.passes:
        parts.append(f"{spent.tokens_per_pass:.1f} tokens a pass")
    while len(parts) > 1 and width(" · ".join(parts)) > cells:
        parts.pop()
    return fit(" · ".join(parts), cells)


def clock(seconds: float) -> str:
    """How long a thought took: `under 0.1 s`, `0.4 s`, `12 s`, `2 min 5 s`."""
    if seconds < 0.05:
        return "under 0.1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
