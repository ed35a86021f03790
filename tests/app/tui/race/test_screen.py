"""Races on the screen: every key, what goes wrong, and what it looks like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList

from specchat.app.chat.methods import known_methods
from specchat.app.race.entry import RaceEntry
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import with_command_line
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.pickers.menu import Menu
from specchat.app.tui.race import screen as race_screen
from specchat.app.tui.race.screen import RaceScreen
from specchat.app.tui.race.setup import RaceSetup
from specchat.app.tui.race.state import LaneFigures
from specchat.engine.client import EngineClient
from specchat.engine.messages import (
    Cancel,
    CloseLane,
    Failed,
    Finished,
    LoadedSecondary,
    Loading,
    LoadSecondary,
    Pace,
    Pause,
    Prefilling,
    StepRecord,
    Steps,
    UnloadSecondary,
)
from specchat.engine.options import ModelSelection

from ....cases import FULL
from ....fakes.models.llama_tiny import needs_llama
from ....fakes.pilots import Make, loaded, settle, until
from ....fakes.races import begin, finish, request_of, write
from ...conftest import INFO, steps

pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop what pulses, and draw figures with the text."""
    monkeypatch.setattr("specchat.app.tui.app.IDLE_SECONDS", 3600)
    monkeypatch.setattr(race_screen, "FIGURES_SECONDS", 0.0)


async def load(pilot: Any, engine: Any) -> None:
    await loaded(pilot, engine, recompute="This model keeps no cache.")


async def race(pilot: Any, engine: Any, command: str = "/race greedy lookup soft : Say it.") -> RaceScreen:
    """A race that has just been asked for."""
    await load(pilot, engine)
    pilot.app.actions.command(command)
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, RaceScreen)
    return screen


async def take(pilot: Any) -> None:
    """The screen shows what the engine said."""
    await settle(pilot.app, pilot)


def numbered(method: str, drafts: bool, seed: int = 1) -> list[StepRecord]:
    """Steps whose tokens count up, so that lanes with the same text are token by token alike."""
    out: list[StepRecord] = []
    count = 0
    for step in steps(method=method, drafts=drafts, seed=seed):
        out.append(replace(step, tokens=list(range(count, count + len(step.tokens)))))
        count += len(step.tokens)
    return out


async def run(pilot: Any, engine: Any, end: bool = True) -> None:
    """Greedy, lookup and soft are under way, or through: soft differs from token 12 on."""
    lanes = [numbered("greedy", False), numbered("lookup", True), numbered("soft", True, seed=3)]
    lanes[2] = [replace(step, tokens=[token if token < 11 else token + 1000 for token in step.tokens]) for step in lanes[2]]
    ids = [begin(engine, i) for i in range(3)]
    for i, (id, lane) in enumerate(zip(ids, lanes, strict=True)):
        share = len(lane) if end else (len(lane) // 4, len(lane) * 2 // 3, len(lane) // 2)[i]
        engine.events += [Prefilling(id, 30, 30, 0.12), Steps(id, lane[:share])]
        if end:
            engine.events.append(Finished(id, "eos", "\n", 0.12, 0.12 + 0.31 * len(lane)))
    await take(pilot)


def pane_text(screen: RaceScreen, index: int) -> str:
    """Name row and figures of a pane."""
    pane = screen.panes[index]
    return f"{pane.title.render()}\n{pane.foot.render()}"


@pytest.mark.parametrize("size", [(80, 24), (200, 55)])
async def test_the_setup_offers_every_loaded_method(make_chat: Make, engine: Any, size: tuple[int, int]) -> None:
    async with make_chat().run_test(size=size) as pilot:
        pilot.app.dialogue.methods = methods = known_methods()
        unloaded = ("tree", "medusa", "dflash", "mtp", "pard")
        await loaded(pilot, engine, **dict.fromkeys(unloaded, "it needs a drafter."))
        await pilot.press("f5")
        setup = pilot.app.screen
        assert {item.id for item in setup.items} == methods.keys() - {*unloaded}
        for option, item in zip(setup.query_one(OptionList).options, setup.items, strict=True):
            assert " ".join(str(option.prompt).split()).endswith(methods[item.id].summary), "whole"


async def test_the_set_up_takes_methods_in_and_leaves_them_out(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await load(pilot, engine)
        await pilot.press("f5")
        setup = pilot.app.screen
        await pilot.press("2", "3")  # lookup was in, soft was not
        assert setup.lanes == ["greedy", "soft"]
        await pilot.press("4")  # cannot run here
        assert setup.lanes == ["greedy", "soft"]
        assert "cannot run here" in setup._refusal
        await pilot.press("home", "space", "enter")
        assert setup.lanes == ["soft"]
        assert pilot.app.screen is setup
        assert "Choose one more" in setup._refusal
        await pilot.press("1", "enter")
        assert [racer.entry.method for racer in pilot.app.screen.race.racers] == ["soft", "greedy"]


async def test_the_command_takes_settings_and_a_prompt_with_quotes(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        screen = await race(pilot, engine, '/race greedy lookup max_ngram=5 : What\'s "that": x')
        assert screen.race.racers[1].entry == RaceEntry("lookup", {"max_ngram": "5"})
        assert request_of(engine, 1).messages == [{"role": "user", "content": 'What\'s "that": x'}]


async def test_escape_stops_then_leaves_and_frees_the_lanes(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        screen = await race(pilot, engine)
        await run(pilot, engine, end=False)
        await pilot.press("escape")
        assert [type(command) for command in engine.sent[-3:]] == [Cancel] * 3
        for i in range(3):
            finish(engine, i, 1.0, reason="cancelled")
        await take(pilot)
        assert screen._finish.has_class("-shown")
        assert "No pane finished" in str(screen._finish.render())
        await pilot.press("escape")
        assert pilot.app.screen is pilot.app.chat_screen
        assert [command for command in engine.sent if isinstance(command, CloseLane)][-3:] == [
            CloseLane(f"race-{n}") for n in (1, 2, 3)
        ]
        assert not pilot.app.dialogue.transcript.entries


async def test_p_holds_every_lane(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        screen = await race(pilot, engine)
        await run(pilot, engine, end=False)
        await pilot.press("p")
        assert [c.paused for c in engine.sent if isinstance(c, Pause)] == [True] * 3
        assert "paused" in screen._header.state[0]
        await pilot.press("space")
        assert [c.paused for c in engine.sent if isinstance(c, Pause)][3:] == [False] * 3
        await pilot.press("s")
        assert [c.passes for c in engine.sent if isinstance(c, Pace)] == [10] * 3
        assert "10 passes a second" in screen._header.state[0]
        assert screen.race.slowed
        await run(pilot, engine)
        captions = str(screen._finish.render())
        assert "passes" in captions
        assert not any(time in captions for time in ("decoding", "prompt", "total")), "no clock that tells another order"


async def test_e_saves_the_race(make_chat: Make, engine: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await race(pilot, engine)
        await run(pilot, engine)
        await pilot.press("e")
        assert isinstance(pilot.app.screen, Menu)
        await pilot.press("enter")
        await pilot.app.workers.wait_for_complete()
        assert [path.suffix for path in tmp_path.iterdir() if path.name.startswith("specchat-race")] == [".html"]


async def test_colours_and_scrolling(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 24)) as pilot:
        screen = await race(pilot, engine)
        await run(pilot, engine)
        await pilot.press("f6")
        assert {pane.text.colouring for pane in screen.panes} == {"off"}
        assert pilot.app.chat_screen.view.colouring == "off"
        bottom = screen.panes[0].text.scroll_offset.y
        assert bottom
        await pilot.press("pageup")
        assert screen.panes[0].text.scroll_offset.y < bottom
        await pilot.press("pagedown")


async def test_panes_stand_side_by_side_where_there_is_room(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(120, 30)) as pilot:
        screen = await race(pilot, engine)
        await run(pilot, engine, end=False)
        for size, columns in (((60, 20), 1), ((107, 30), 2), ((108, 30), 3)):
            await pilot.resize_terminal(*size)
            regions = [pane.region for pane in screen.panes]
            assert len({region.y for region in regions}) == -(-3 // columns)
            assert all(region.height >= 4 for region in regions)
            assert max(region.right for region in regions) == size[0]
            write(engine, 0, numbered("greedy", False)[-1:])
            await take(pilot)
            assert screen.panes[0].text.size.height >= 2


def standing(number: int, name: str, place: int | None, seconds: float, speedup: float = 1.0) -> LaneFigures:
    row = LaneFigures(number, name, place=place, seconds=seconds, speedup=speedup, sign="≡", mark="identical")
    return replace(row, amount=60, speed=60 / seconds, tokens_per_step=2.0, acceptance=0.5)


def test_set_up(picture: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await load(pilot, engine)
        await pilot.press("f5")

    assert picture(before)


@pytest.mark.parametrize("end", [False, True], ids=["racing", "finish"])
def test_race(picture: Make, engine: Any, end: bool) -> None:
    async def before(pilot: Any) -> None:
        await race(pilot, engine)
        await run(pilot, engine, end=end)
        await pilot.pause()

    assert picture(before)


def loads(engine: Any) -> list[LoadSecondary]:
    return [command for command in engine.sent if isinstance(command, LoadSecondary)]


def have(engine: Any, tokenizer: str = "other") -> None:
    """The last model that was asked for is loaded."""
    command = loads(engine)[-1]
    info = replace(INFO, name=command.selection.model, backend="llama.cpp", dtype="Q4_0")
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
            engine.events.append(Finished(request_of(engine, i).id, "cancelled", "", 0, 0))
        await take(pilot)
        assert "stopped" in pane_text(screen, 1) or "cancelled" in pane_text(screen, 1)
        await pilot.press("escape")
        assert pilot.app.screen is pilot.app.chat_screen
        assert UnloadSecondary("models/small-Q4_0.gguf") in engine.sent


@pytest.mark.parametrize("end", [False, True], ids=["racing", "finish"])
def test_race_of_models(picture: Make, engine: Any, end: bool) -> None:
    async def before(pilot: Any) -> None:
        await race_of_models(pilot, engine, end)
        await pilot.pause()

    assert picture(before)


FOUR = ["greedy", "eagle", "draft", "fusion"]
DRAFTERS = ("builtin-draft", "builtin-eagle")


async def choose_lanes(pilot: Any, methods: list[str]) -> None:
    """Have these methods race, in this order, by their keys."""
    setup = pilot.app.screen
    assert isinstance(setup, RaceSetup)
    ids = [item.id for item in setup.items]
    for name in (*setup.lanes, *methods):  # out, then in
        setup.action_pick(ids.index(name))
    await pilot.pause()
    assert setup.lanes == methods


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
        client.load(ModelSelection("builtin", device="cpu", backend=backend, draft_model=drafts))
        app = SpecchatApp(with_command_line(Settings(), {"max_tokens": 24, "draft_model": drafts}), client)
        async with app.run_test(size=(150, 40)) as pilot:
            await until(pilot, lambda: app.dialogue.phase == "ready")
            assert app.dialogue.info.backend == backend
            app.chat_screen.input.put("Tell me a story about a fox.")
            await pilot.press("f5")
            await choose_lanes(pilot, FOUR)
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
