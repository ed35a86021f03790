"""Races are run again until their order is certain."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.race.race import MOST_ROUNDS, Race, slower
from specchat.app.tui.race.photo_finish import headline
from specchat.app.tui.race.state import standings
from specchat.engine.messages import Finished, Generate, Prefilling, Started, Steps

from ...fakes.races import records
from .test_race import race


def run(made: Race, dialogue: Dialogue, engine: Any, clocks: list[tuple[float, float]]) -> None:
    """Answer every round that is asked for, the last clocks again and again."""
    at = 0
    while True:
        asked = [command for command in engine.sent if isinstance(command, Generate)][-2:]
        for command, seconds in zip(asked, clocks[min(at, len(clocks) - 1)], strict=True):
            engine.events += [
                Started(command.id, command.lane, command.method, "identical", 3, 0),
                Prefilling(command.id, 3, 3, 0.0),
                Steps(command.id, records(command.method, [1, 2, 3, 4], seconds=seconds / 4)),
                Finished(command.id, "eos", "", 0.0, seconds),
            ]
        dialogue.drain()
        at += 1
        if not made.settling:
            return


@pytest.mark.parametrize(
    ("clocks", "rounds", "said"),
    [
        ([(0.04, 0.01)], 1, "lookup wins: 10 ms of decoding"),  # no doubt
        ([(6.0, 4.0)], 1, "lookup wins: 4.00 s of decoding"),  # too long for another
        ([(6.0, 6.2)], 1, "greedy and lookup: too close to call"),
        ([(2.0, 1.5)], 2, "lookup wins: 1.50 s of decoding"),  # long
        ([(1.5, 2.0), (1.7, 1.6)], 2, "greedy and lookup: too close to call"),  # the clocks of the two rounds overlap
        ([(0.04, 0.03), (0.04, 0.031), (0.041, 0.03)], 3, "lookup wins: 30 ms of decoding"),
        ([(0.03, 0.04), (0.04, 0.03)], None, "lookup wins: 30 ms of decoding"),  # the first round was chance
        ([(0.03, 0.03)], MOST_ROUNDS, "greedy and lookup: too close to call"),
    ],
)
def test_rounds(dialogue: Dialogue, engine: Any, clocks: list[tuple[float, float]], rounds: int | None, said: str) -> None:
    made = race(dialogue)
    run(made, dialogue, engine, clocks)
    assert made.round == rounds or rounds is None
    name, what, _ = headline(standings(made))
    assert name + what == said
    assert not made.running
    assert made.record().tied == ((1,) if "close" in said else ())


def test_a_rerun_forgets_the_rounds(dialogue: Dialogue, engine: Any) -> None:
    made = race(dialogue)
    run(made, dialogue, engine, [(0.03, 0.03)])
    made.start()
    assert (made.round, made.tied, made.settling) == (1, set(), False)


def test_the_same_passes_share_a_place(dialogue: Dialogue, engine: Any) -> None:
    """Chance alone sets two lanes of one method apart: they are not run again, and neither wins."""
    made = race(dialogue, "greedy", "greedy")
    run(made, dialogue, engine, [(6.0, 3.0)])
    assert (made.round, [made.place(racer) for racer in made.racers]) == (1, [1, 1])


def test_what_is_certain() -> None:
    assert slower([1.9], last=False)
    assert not slower([1.2], last=False)
    assert slower([1.2], last=True)
    assert not slower([1.5, 0.8, 1.4], last=True)
    assert slower([1.20, 1.25, 1.22], last=False)
