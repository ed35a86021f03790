"""Every screen at every size: nothing ends the program, and what is too small says so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from textual.strip import Strip

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.engine.messages import Loaded, PieceTable, StepRecord

from ...cases import FULL
from ...fakes.pilots import chatting
from ...fakes.races import begin, finish, records, write
from ..conftest import INFO, VOCABULARY, steps, trees

WIDTHS = (1, 2, 12, 19, 20, 21, 24, 30, 40, 60, 100, 250)
HEIGHTS = (1, 2, 5, 6, 7, 8, 10, 16, 24, 60)
GRID = list(itertools.product(WIDTHS, HEIGHTS))
SAMPLE = [(1, 1), (20, 6), (24, 10), (250, 1), (1, 60), (20, 8), (40, 6)]

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
    "everything": ["ctrl+p", "h"],
    "leader": ["ctrl+o"],
    "leader again": ["ctrl+o", "up"],
    "search": ["ctrl+f", "t"],
    "export": ["alt+s"],
    "models": ["alt+m"],
    "chats": ["alt+h"],
    "system": ["alt+i", "x"],
    "settings": ["alt+o"],
    "a value": ["alt+o", "down", "down", "enter"],
    "completion": ["/", "m"],
    "many lines": [*"abcdefg", *["alt+enter"] * 9, "x"],
}


async def filled(pilot: Any, engine: Any) -> None:
    """A chat with prompts, answers, notices and a tree."""
    engine.events.append(Loaded(1, dict(INFO), {"soft": "It cannot here."}))
    engine.events.append(PieceTable(2, VOCABULARY))
    chat = pilot.app
    chat.take_events()
    answer = Answer("lookup", "identical")
    for step in (*steps(), *trees(), StepRecord("lookup", [1], "x" * 60)):
        answer.add(step)
    answer.finish("eos", "")
    notices = [Notice("A notice of some length that wraps."), Notice("No.", "error")]
    chat.dialogue.transcript.entries[:] = [Prompt("Tell me about 灯 and 👩‍🚀"), answer, *notices]
    chat.chat_screen.view.show(chat.dialogue.transcript)
    chat.chat_screen.input.sent.append("typed before")
    chat.changed()
    await pilot.pause()


async def check(pilot: Any) -> None:
    """The screen is drawn, as large as the terminal or the least size is; on a busy machine a moment after the resize."""
    app = pilot.app
    size = width, height = max(app.terminal_size.width, 20), max(app.terminal_size.height, 6)
    for wait in (0, 0.1, 1, 5, 20):
        await pilot.pause(wait)
        rows: list[Strip] = app.screen._compositor.render_strips()
        if (app.size, [strip.cell_length for strip in rows]) == (size, [width] * height):
            return
    raise AssertionError(f"drawn in {app.size}, {[strip.cell_length for strip in rows]}, not in {size}")


async def resized(pilot: Any, sizes: list[tuple[int, int]]) -> None:
    for size in sizes:
        await pilot.resize_terminal(*size)
        await pilot.pause()
        await check(pilot)


@pytest.mark.parametrize(
    "screens", [list(SCREENS)[n :: len(SCREENS) if FULL else 3] for n in range(len(SCREENS) if FULL else 3)]
)
async def test_no_size_ends_a_screen(screens: list[str], make_chat: Any, engine: Any, monkeypatch: Any, tmp_path: Any) -> None:
    """Opened while it is small, and resized while it is open."""
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    async with chatting(make_chat(), size=(80, 24)) as (app, pilot):
        await filled(pilot, engine)
        for number, screen in enumerate(screens):
            for size in SAMPLE if FULL else [SAMPLE[number % len(SAMPLE)]]:
                await pilot.resize_terminal(*size)
                await pilot.press(*SCREENS[screen])
                await pilot.pause()
                await check(pilot)
                await resized(pilot, [(80, 24), (1, 1), size] if FULL else [(1, 1)])
                await pilot.press("escape", "escape", "escape", "ctrl+u")
                app.chat_screen.panel.open("")
            if FULL:
                await pilot.resize_terminal(100, 30)
                await pilot.press(*SCREENS[screen])
                await resized(pilot, [*GRID, (80, 24)])
    assert app.return_code in (0, None)


@pytest.mark.parametrize("size", [(20, 6), (40, 9), (40, 10), (60, 15)], ids=str)
async def test_the_answer_shows_and_so_does_the_cursor_of_a_long_draft(
    size: tuple[int, int], make_chat: Any, engine: Any
) -> None:
    async with chatting(make_chat(), size=size) as (app, pilot):
        await filled(pilot, engine)
        screen = app.chat_screen
        for draft in ("", "\n".join("abcdefghij")):
            app.box.put(draft)
            await pilot.pause()
            view, box = screen.view.region, app.box.region
            assert view.height >= 1
            assert view.bottom <= box.y
            assert box.y <= app.box.cursor_screen_offset.y < box.bottom
            assert screen.query_one("#keys").region.y == size[1] - 1


@pytest.mark.parametrize("done", [False, True] if FULL else [True])
async def test_no_size_ends_a_race(done: bool, make_chat: Any, engine: Any) -> None:
    async with chatting(make_chat(), size=(100, 30)) as (app, pilot):
        await filled(pilot, engine)
        app.actions.command("/race greedy lookup recompute : Say it.")
        await pilot.pause()
        for lane, method in enumerate(("greedy", "lookup", "recompute")):
            begin(engine, lane)
            write(engine, lane, records(method, range(40), 2))
        app.take_events()
        await resized(pilot, [*(GRID if FULL else SAMPLE[:2]), (100, 30)])
        if done:
            for lane in range(3):
                finish(engine, lane, 1.0 + lane)
            app.take_events()
        await resized(pilot, [*(GRID if FULL else SAMPLE[:2]), (100, 30)])
        for keys in (["f1"], ["escape", "f7"], ["tab", "enter"]):
            await pilot.press(*keys)
            await resized(pilot, [*(GRID if FULL else SAMPLE[:1]), (100, 30)])
    assert app.return_code in (0, None)
