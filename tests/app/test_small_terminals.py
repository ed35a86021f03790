"""Every screen at every size: nothing ends the program, and what is too small says so."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
from textual.strip import Strip

from specchat.app.transcript import Answer, Notice, Prompt
from specchat.engine.messages import Loaded, PieceTable, StepRecord

from .conftest import INFO, VOCABULARY, steps, trees
from .races import begin, finish, records, write

FULL = bool(os.environ.get("SPECCHAT_FULL"))
"""SPECCHAT_FULL=1 opens every screen at every size of the grid, and goes through all sizes while it is open."""

WIDTHS = (1, 2, 3, 5, 8, 12, 16, 20, 24, 30, 40, 60, 100, 250)
HEIGHTS = (1, 2, 3, 4, 6, 8, 10, 16, 24, 60)
GRID = list(itertools.product(WIDTHS, HEIGHTS))
SAMPLE = [(1, 1), (2, 2), (24, 10), (250, 1), (1, 60), (12, 6), (40, 3)]

SCREENS: dict[str, list[str]] = {
    "chat": [],
    "help": ["f1"],
    "methods": ["f2"],
    "theme": ["f3"],
    "markdown": ["ctrl+g"],
    "figures": ["f4"],
    "tree": ["f4", "f4"],
    "how": ["f4", "f4", "f4"],
    "race setup": ["f5"],
    "inspector": ["f7", "left"],
    "palette": ["ctrl+p", "h"],
    "search": ["ctrl+f", "t"],
    "export": ["alt+s"],
    "models": ["alt+m"],
    "chats": ["alt+h"],
    "system": ["alt+i", "x"],
    "presets": ["alt+p"],
    "settings": ["alt+o"],
    "a value": ["alt+o", "down", "down", "enter"],
    "keys": ["alt+o", *"help", "enter"],
    "completion": ["/", "m"],
    "many lines": [*"abcdefghijklmnop", *["alt+enter"] * 12, "x"],
}

SENTENCE = "too small"


async def filled(pilot: Any, engine: Any) -> None:
    """A chat with prompts, answers, notices and a tree."""
    engine.events.append(Loaded(1, dict(INFO), {"soft": "It cannot here."}))
    engine.events.append(PieceTable(2, VOCABULARY))
    await pilot.pause()
    chat = pilot.app
    answer = Answer("lookup", "identical")
    for step in (*steps(), *trees(), StepRecord("lookup", [1], "x" * 60)):
        answer.add(step)
    answer.finish("eos", "")
    entries = [Prompt("Tell me about 灯 and 👩‍🚀"), answer, Notice("A notice of some length that wraps."), Notice("No.", "error")]
    chat.dialogue.transcript.entries[:] = entries
    chat.chat_screen.view.show(chat.dialogue.transcript)
    chat.chat_screen.input.sent.append("typed before")
    chat.changed()
    await pilot.pause()


def check(app: Any) -> None:
    """The screen is drawn, as large as the terminal is."""
    width, height = app.size
    rows: list[Strip] = app.screen._compositor.render_strips()
    assert [strip.cell_length for strip in rows] == [width] * height


async def resized(pilot: Any, sizes: list[tuple[int, int]]) -> None:
    for size in sizes:
        await pilot.resize_terminal(*size)
        await pilot.pause()
        check(pilot.app)


@pytest.mark.parametrize("screen", SCREENS)
async def test_no_size_ends_a_screen(screen: str, make_chat: Any, engine: Any, monkeypatch: Any, tmp_path: Any) -> None:
    """Opened while it is small, and resized while it is open."""
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    app = make_chat()
    async with app.run_test(size=(80, 24)) as pilot:
        await filled(pilot, engine)
        for size in GRID if FULL else SAMPLE[:3]:
            await pilot.resize_terminal(*size)
            await pilot.press(*SCREENS[screen])
            await pilot.pause()
            check(app)
            await resized(pilot, [(1, 1), (80, 24), *SAMPLE[:2], size])
            await pilot.press("escape", "escape", "escape", "ctrl+u")
            app.chat_screen.panel.open("")
        await pilot.resize_terminal(100, 30)
        await pilot.press(*SCREENS[screen])
        await resized(pilot, [*(GRID if FULL else SAMPLE), (80, 24)])
    assert app.return_code in (0, None)


async def race_done(pilot: Any, engine: Any) -> None:
    pilot.app.commands.run("/race greedy lookup recompute : Say it.")
    await pilot.pause()
    for lane, method in enumerate(("greedy", "lookup", "recompute")):
        begin(engine, lane)
        write(engine, lane, records(method, range(40), 2))
        finish(engine, lane, 1.0 + lane)
    pilot.app.take_events()
    await pilot.pause()


async def race_running(pilot: Any, engine: Any) -> None:
    pilot.app.commands.run("/race greedy lookup recompute : Say it.")
    await pilot.pause()
    for lane, method in enumerate(("greedy", "lookup", "recompute")):
        begin(engine, lane)
        write(engine, lane, records(method, range(40), 2))
    pilot.app.take_events()
    await pilot.pause()


@pytest.mark.parametrize("run", [race_running, race_done])
async def test_no_size_ends_a_race(run: Callable[..., Any], make_chat: Any, engine: Any) -> None:
    app = make_chat()
    async with app.run_test(size=(100, 30)) as pilot:
        await filled(pilot, engine)
        await run(pilot, engine)
        await resized(pilot, [*(GRID if FULL else SAMPLE), (100, 30)])
        for keys in (["f1"], ["escape", "f7"], ["tab", "enter"]):
            await pilot.press(*keys)
            await resized(pilot, [*(GRID if FULL else SAMPLE[:3]), (100, 30)])
    assert app.return_code in (0, None)
