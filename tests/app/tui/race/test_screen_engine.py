"""Races on the screen with the real engine and the built-in model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.race.screen import RaceScreen
from specchat.app.tui.race.setup import RaceSetup
from specchat.engine.client import EngineClient

from ....cases import FULL
from ....fakes.models.llama_tiny import needs_llama
from ....fakes.pilots import until

FOUR = ["greedy", "eagle", "draft", "fusion"]
DRAFTERS = ("builtin-draft", "builtin-eagle")


async def choose(pilot: Any, wanted: list[str]) -> None:
    """Have these methods race, in this order, by their keys."""
    setup = pilot.app.screen
    assert isinstance(setup, RaceSetup)
    await pilot.press("end", "space")  # more methods
    ids = [item.id for item in setup._items]
    for name in (*setup.chosen, *wanted):  # out, then in
        setup.action_pick(ids.index(name))
    await pilot.pause()
    assert setup.chosen == wanted


@pytest.mark.parametrize(
    ("backend", "drafts"),
    [
        pytest.param("llama.cpp", (), marks=needs_llama),  # the built-in model brings both along
        *([("transformers", ()), ("transformers", DRAFTERS)] if FULL else []),
        *([pytest.param("llama.cpp", DRAFTERS, marks=needs_llama)] if FULL else []),
    ],
)
async def test_a_head_a_draft_model_fusion_and_plain_decoding_race(
    backend: str, drafts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    with EngineClient() as client:
        options = {"draft_model": drafts} if drafts else {}
        client.load("builtin", device="cpu", backend=backend, **options)
        app = SpecchatApp(changed(Settings(), {"max_tokens": 48, "draft_model": drafts}), client)
        async with app.run_test(size=(150, 40)) as pilot:
            await until(pilot, lambda: app.dialogue.phase == "ready")
            assert app.dialogue.info["backend"] == backend
            app.chat_screen.input.put("Tell me a story about a fox.")
            await pilot.press("f5")
            await choose(pilot, FOUR)
            await pilot.press("enter")
            screen = app.screen
            assert isinstance(screen, RaceScreen)
            race = screen.race
            await until(pilot, lambda: not race.running and not any(racer.judging for racer in race.racers))
            assert [racer.entry.method for racer in race.racers] == FOUR
            assert [racer.error for racer in race.racers] == [""] * 4
            assert [race.mark(racer) for racer in race.racers] == ["reference", *["identical"] * 3]
            assert len({racer.answer.text for racer in race.racers}) == 1
            assert len(race.racers[0].tokens) > 16
            passes = [racer.answer.figures.steps for racer in race.racers]
            assert max(passes[1:]) < passes[0], "every drafter saves passes"
            assert len({pane.region.y for pane in screen.panes}) == 1, "side by side"
