"""A chat with a server: its method and one line about ours in the menus, races from it, and its models' names with spaces."""

from __future__ import annotations

from typing import Any

import pytest
from textual.widgets import OptionList

from specchat.app.chat.methods import known_methods
from specchat.app.race.entry import RaceEntry
from specchat.app.tui.race.screen import RaceScreen
from specchat.engine.messages import Loaded

from ....fakes.pilots import Make, settle

HERE, THERE = "http://a:1", "http://b:2"


async def served(pilot: Any, engine: Any, method: str) -> None:
    """The chat's model is on a server that decodes with this."""
    await pilot.pause()
    dialogue = pilot.app.dialogue
    dialogue.model, dialogue.methods = HERE, known_methods()
    told = {"engine": "vLLM", "method": method}
    reasons = dict.fromkeys(known_methods(), "a:1 decodes, and it decides how.")
    engine.events.append(Loaded(1, {"name": "m", "backend": "server", "device": "vLLM at a:1", "server": told}, reasons))
    await settle(pilot.app, pilot)


@pytest.mark.parametrize("key", ["f2", "f5"])
async def test_our_methods_are_one_line(make_chat: Make, engine: Any, key: str) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await served(pilot, engine, "ngram K=10")
        pilot.app.chat_screen.input.put("Say it.")
        await pilot.press(key)
        listed = pilot.app.screen.query_one(OptionList)
        rows = [str(listed.get_option_at_index(i).prompt) for i in range(listed.option_count)]
    assert len([row for row in rows if "decides how" in row]) == 1
    assert len(rows) == (3 if key == "f2" else 2), rows


@pytest.mark.parametrize(
    ("line", "method", "entries"),
    [
        (f"/race greedy@{HERE} greedy@{THERE} : Hi", "server", [RaceEntry("server"), RaceEntry("greedy", model=THERE)]),
        (f"/race greedy greedy@{THERE} : Hi", "server", [RaceEntry("server"), RaceEntry("greedy", model=THERE)]),
        (f"/race lookup@{HERE} greedy@{HERE} : Hi", "x K=1", [RaceEntry("x K=1"), RaceEntry("x K=1")]),
        (f"/race greedy@{THERE} : Hi", "server", [RaceEntry("server"), RaceEntry("greedy", model=THERE)]),
    ],
)
async def test_a_race_from_a_server(make_chat: Make, engine: Any, line: str, method: str, entries: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await served(pilot, engine, method)
        pilot.app.actions.command(line)
        await pilot.pause()
        screen = pilot.app.screen
        assert isinstance(screen, RaceScreen)
        assert [racer.entry for racer in screen.race.racers] == entries
