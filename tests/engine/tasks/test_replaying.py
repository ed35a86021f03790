"""Replays of one record side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specchat.decoders.stats import Totals
from specchat.engine.tasks.replaying import TURN, abreast


def run(name: str, tokens: list[int], seen: list[str]) -> Iterator[Totals]:
    """A replay whose passes give so many tokens each."""
    totals = Totals()
    try:
        for count in tokens:
            totals.tokens += count
            seen.append(name)
            yield totals
    finally:
        seen.append(f"{name} ends")


def test_whoever_is_least_far_goes_on() -> None:
    seen: list[str] = []
    slow, fast = [1, *([TURN // 4] * 8)], [1, TURN, TURN]
    one, other = abreast([run("slow", slow, seen), run("fast", fast, seen)], lambda: None)
    assert one.tokens == other.tokens == 1 + 2 * TURN
    # Turns of both lie among each other: the slow one catches up before the fast one goes on.
    assert seen == ["slow", "fast", *["slow"] * 4, "fast", *["slow"] * 4, "fast", "slow ends", "fast ends"]


def test_a_cancelled_replay_ends_them_all() -> None:
    seen: list[str] = []

    def stop() -> None:
        if len(seen) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        abreast([run("a", [1] * 9, seen), run("b", [1] * 9, seen)], stop)
    assert {"a ends", "b ends"} <= set(seen)
