"""Races of several models on the screen: choosing models, loading them, figures in characters, and what it looks like."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.app.race import choices as race_choices
from specchat.app.race.choices import ModelChoice
from specchat.app.race.entry import RaceEntry
from specchat.app.tui.race import screen as race_screen
from specchat.app.tui.race.model import RaceModel
from specchat.app.tui.race.screen import RaceScreen
from specchat.app.tui.race.setup import LanePick, RaceSetup
from specchat.engine.messages import (
    Cancel,
    Failed,
    Finished,
    LoadedSecondary,
    Loading,
    LoadSecondary,
    Prefilling,
    Steps,
    UnloadSecondary,
)

from ....fakes.pilots import Make, worked
from ....fakes.races import asked, begin
from ...conftest import INFO
from .test_screen import load, numbered, pane_text, race, take

pytestmark = pytest.mark.usefixtures("still")

SMALL = ModelChoice("models/small-Q4_0.gguf", "", "small-Q4_0.gguf", "llama.cpp · Q4_0 · 3.9 MB", "This folder")
CHOICES = [
    ModelChoice("builtin", "llama.cpp", "builtin", "llama.cpp · Q8_0 · 7.3 MB", "Built-in"),
    SMALL,
    ModelChoice("Qwen/Qwen3-0.6B", "", "Qwen/Qwen3-0.6B", "transformers · BF16 · 1.2 GB", "Hugging Face cache"),
    ModelChoice(
        "broken.gguf", "", "broken.gguf", "llama.cpp", "This folder", "broken.gguf is not a GGUF file. Download it again."
    ),
]


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing pulses, figures are drawn with the text, and there are these models."""
    monkeypatch.setattr("specchat.app.tui.app.IDLE_SECONDS", 3600)
    monkeypatch.setattr(race_screen, "FIGURES_SECONDS", 0.0)
    monkeypatch.setattr(race_choices, "look", lambda *given: list(CHOICES))


def loads(engine: Any) -> list[LoadSecondary]:
    return [command for command in engine.sent if isinstance(command, LoadSecondary)]


def have(engine: Any, tokenizer: str = "other") -> None:
    """The last model that was asked for is loaded."""
    command = loads(engine)[-1]
    info = {**INFO, "name": command.model, "backend": "llama.cpp", "dtype": "Q4_0"}
    engine.events.append(LoadedSecondary(command.id, command.key, info, {"lookup": "No drafts."}, tokenizer, "same"))


async def race_of_models(pilot: Any, engine: Any, end: bool = False, tokenizer: str = "other") -> RaceScreen:
    """Greedy and lookup on the chat's model against greedy on a small one, which writes less."""
    screen = await race(pilot, engine, "/race greedy lookup greedy@models/small-Q4_0.gguf : Say it.")
    have(engine, tokenizer)
    lanes = [numbered("greedy", False), numbered("lookup", True), numbered("greedy", True, seed=3)[:12]]
    for i, lane in enumerate(lanes):
        id = begin(engine, i)
        share = len(lane) if end else (len(lane) // 4, len(lane) * 2 // 3, len(lane))[i]
        engine.events += [Prefilling(id, 30, 30, 0.12), Steps(id, lane[:share])]
        if end:
            engine.events.append(Finished(id, "eos", "\n", 0.12, 0.12 + (0.031, 0.031, 0.011)[i] * len(lane)))
    await take(pilot)
    return screen


async def choose(pilot: Any) -> RaceModel:
    """The list of models is there."""
    await worked(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, RaceModel)
    return screen


async def test_m_lets_a_method_race_on_another_model_too(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await load(pilot, engine)
        await pilot.press("f5")
        setup = pilot.app.screen
        assert isinstance(setup, RaceSetup)
        await pilot.press("2", "home", "m")  # greedy alone, then greedy on …
        menu = await choose(pilot)
        assert menu.listed.items[0].title == "builtin"
        await pilot.press("down", "down", "enter")
        assert setup.lanes == [LanePick("greedy"), LanePick("greedy", SMALL)]
        await pilot.press("m")
        menu = await choose(pilot)
        assert menu._taken == {"", SMALL.key}
        await pilot.press("down", "down", "enter")  # out again
        assert setup.lanes == [LanePick("greedy")]
        await pilot.press("m")
        await choose(pilot)
        await pilot.press("escape", "m")
        await choose(pilot)
        await pilot.press("down", "enter", "enter")
        await pilot.pause()
        screen = pilot.app.screen
        assert isinstance(screen, RaceScreen)
        assert [racer.entry for racer in screen.race.racers] == [
            RaceEntry("greedy"),
            RaceEntry("greedy", model="builtin", backend="llama.cpp"),
        ]
        assert loads(engine)[0].options["backend"] == "llama.cpp"


LINES = [
    ("/race greedy greedy@a/b:Q4_0 : Hi", [RaceEntry("greedy"), RaceEntry("greedy", model="a/b:Q4_0")]),
    ("/race greedy@x.gguf : Hi", [RaceEntry("greedy"), RaceEntry("greedy", model="x.gguf")]),
    (
        "/race greedy@llama.cpp greedy@transformers",
        [RaceEntry("greedy", model="builtin", backend="llama.cpp"), RaceEntry("greedy")],
    ),
    ("/race lookup@x max_ngram=4 greedy", [RaceEntry("lookup", {"max_ngram": "4"}, "x"), RaceEntry("greedy")]),
    ("/race recompute@x greedy", [RaceEntry("recompute", model="x"), RaceEntry("greedy")]),
    ('/race greedy greedy@"my models/x y.gguf"', [RaceEntry("greedy"), RaceEntry("greedy", model="my models/x y.gguf")]),
]


async def test_the_command_takes_models(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        for line, entries in LINES:
            screen = await race(pilot, engine, line)
            assert [racer.entry for racer in screen.race.racers] == entries
            await pilot.press("escape", "escape")
            await pilot.pause()


async def test_loading_is_shown_and_can_be_stopped(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(120, 30)) as pilot:
        screen = await race(pilot, engine, "/race greedy greedy@models/small-Q4_0.gguf : Hi")
        engine.events.append(Loading(loads(engine)[0].id, "weights", 1, 4))
        await take(pilot)
        assert "loading the weights 25%" in pane_text(screen, 1)
        assert "waiting for a model" in pane_text(screen, 0)
        assert "loading" in screen._header.state[0]
        await pilot.press("escape")
        assert Cancel(loads(engine)[0].id) in engine.sent
        engine.events.append(Failed(loads(engine)[0].id, "cancelled", "Loading it was cancelled."))
        for i in range(2):
            engine.events.append(Finished(asked(engine, i).id, "cancelled", "", 0, 0))
        await take(pilot)
        assert "stopped" in pane_text(screen, 1) or "cancelled" in pane_text(screen, 1)
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.screen is pilot.app.chat_screen
        assert UnloadSecondary("models/small-Q4_0.gguf") in engine.sent


def test_models(picture: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await load(pilot, engine)
        await pilot.press("f5", "m")
        await choose(pilot)
        await pilot.press("down", "down")

    assert picture(before)


@pytest.mark.parametrize("end", [False, True], ids=["racing", "finish"])
def test_race_of_models(picture: Make, engine: Any, end: bool) -> None:
    async def before(pilot: Any) -> None:
        await race_of_models(pilot, engine, end)
        await pilot.pause()

    assert picture(before)
