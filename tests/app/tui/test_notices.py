"""Notices beside the chat: how much room they take, when they go, and where their text can still be read."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import AppBlur
from textual.strip import Strip
from textual.widgets._toast import Toast

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.engine.messages import Loaded, PieceTable, StepRecord

from ...cases import FULL
from ...fakes.pilots import Make, chatting, command, settle, until
from ...fakes.races import begin, finish, records, write
from ..conftest import INFO, VOCABULARY, steps, trees

LONG = " ".join(f"word{n}" for n in range(120))


def shown(app: Any) -> list[str]:
    return [str(toast.render()) for toast in app.screen.query(Toast)]


async def test_a_notice_takes_as_many_rows_as_it_needs_above_the_box(make_chat: Make) -> None:
    async with chatting(make_chat(), size=(80, 24), notifications=True) as (app, pilot):
        for _ in range(2):
            app.tell("A short one.", "warning")
            await settle(app, pilot)
        assert shown(app) == ["A short one."], "not the same sentence twice"
        app.tell("Said.")
        app.tell("Said since.")
        await settle(app, pilot)
        assert shown(app) == ["A short one.", "Said since."], "a warning stays next to what is said since"
        app.tell(LONG, "warning")
        await until(pilot, lambda: any("word0" in text for text in shown(app)))
        *_, toast = app.screen.query(Toast)
        assert toast.region.bottom == app.screen.query_one("#composer").region.y
        assert toast.region.height == 4
        app.tell("Until then.", until=lambda: True)
        await settle(app, pilot)
        app.clear_settled_notices()
        await settle(app, pilot)
        assert "Until then." not in shown(app)


@pytest.mark.parametrize(("case", "bells"), [("long", 1), ("in front", 0), ("short", 0), ("off", 0)], ids=str)
async def test_the_bell_rings_after_long_work_in_the_background(
    make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch, case: str, bells: int
) -> None:
    # Its patience: a test does not wait.
    monkeypatch.setattr("specchat.app.tui.app.LONG_SECONDS", 3600 if case == "short" else 0)
    async with chatting(make_chat(notify=case != "off"), engine) as (app, pilot):
        rung: list[str] = []
        monkeypatch.setattr(app, "bell", lambda: rung.append("bell"))
        await command(pilot, "Hello")
        engine.begin(make_steps())
        if case != "in front":
            app.post_message(AppBlur())
        await settle(app, pilot)
        assert rung == []
        engine.finish()
        await settle(app, pilot)
        assert len(rung) == bells


async def test_a_key_for_what_had_the_focus_does_nothing_once_that_is_gone(make_chat: Make) -> None:
    async with chatting(make_chat()) as (app, pilot):
        app.screen.set_focus(None)
        await pilot.pause()
        assert not await app.run_action("focused.cursor_down")


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
    engine.events.append(Loaded(1, INFO, {"soft": "It cannot here."}))
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


async def resized(pilot: Any, *sizes: tuple[int, int]) -> None:
    """Each size is drawn, at least 20×6; on a busy machine a moment after the resize."""
    for cells, lines in sizes:
        await pilot.resize_terminal(cells, lines)
        size = width, height = max(cells, 20), max(lines, 6)

        def drawn(size: tuple[int, int] = size, rows: list[int] = [width] * height) -> bool:
            strips: list[Strip] = pilot.app.screen._compositor.render_strips()
            return (pilot.app.size, [strip.cell_length for strip in strips]) == (size, rows)

        await until(pilot, drawn)


@pytest.mark.parametrize("part", range(3))
async def test_no_size_ends_a_screen(part: int, make_chat: Any, engine: Any, monkeypatch: Any, tmp_path: Any) -> None:
    """Opened while it is small, and resized while it is open."""
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    async with chatting(make_chat(), size=(80, 24)) as (app, pilot):
        await filled(pilot, engine)
        for number, screen in enumerate(list(SCREENS)[part::3]):
            for size in SAMPLE if FULL else [SAMPLE[number % len(SAMPLE)]]:
                await resized(pilot, size)
                await pilot.press(*SCREENS[screen])
                await resized(pilot, *([(80, 24), (1, 1), size] if FULL else [(1, 1)]))
                await pilot.press("escape", "escape", "escape", "ctrl+u")
                app.chat_screen.panel.open("")
    assert app.return_code in (0, None)


@pytest.mark.parametrize("size", [(20, 6), (40, 10)], ids=str)
async def test_answer_and_cursor_show(size: tuple[int, int], make_chat: Any, engine: Any) -> None:
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


async def test_no_size_ends_a_race(make_chat: Any, engine: Any) -> None:
    async with chatting(make_chat(), size=(100, 30)) as (app, pilot):
        await filled(pilot, engine)
        app.actions.command("/race greedy lookup recompute : Say it.")
        await pilot.pause()
        for lane, method in enumerate(("greedy", "lookup", "recompute")):
            begin(engine, lane)
            write(engine, lane, records(method, range(40), 2))
        app.take_events()
        await resized(pilot, *SAMPLE[:2], (100, 30))
        for lane in range(3):
            finish(engine, lane, 1.0 + lane)
        app.take_events()
        await resized(pilot, *SAMPLE, (100, 30))
        await pilot.press("f1")
        await resized(pilot, (1, 1), (100, 30))
    assert app.return_code in (0, None)
