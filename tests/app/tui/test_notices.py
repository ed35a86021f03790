"""Notices beside the chat: how much room they take, when they go, and where their text can still be read."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from textual.events import AppBlur, AppFocus
from textual.strip import Strip
from textual.widgets._toast import Toast

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.tui import notify
from specchat.app.tui.actions.help import HelpScreen
from specchat.app.tui.terminal_app import NOTICE_ROWS, RECENT
from specchat.engine.messages import Loaded, PieceTable, StepRecord

from ...cases import FULL
from ...fakes.pilots import Make, chatting, command, settle, until
from ...fakes.races import begin, finish, records, write
from ..conftest import INFO, VOCABULARY, steps, trees

LONG = " ".join(f"word{n}" for n in range(120))


def shown(app: Any) -> list[str]:
    return [str(toast.render()) for toast in app.screen.query(Toast)]


def row_under_cursor(screen: HelpScreen) -> str:
    item = screen.listed.item
    assert item is not None
    return item.title


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 36)])
async def test_a_notice_takes_two_rows_and_the_help_has_all_of_it(make_chat: Make, size: tuple[int, int]) -> None:
    async with chatting(make_chat(), size=size, notifications=True) as (app, pilot):
        for _ in range(2):
            app.tell("A short one.", "warning")
            await settle(app, pilot)
        assert shown(app) == ["A short one."], "not the same sentence twice"
        app.tell(LONG, "warning")
        await until(pilot, lambda: any("word0" in text for text in shown(app)))
        [cut] = shown(app)  # the one before has no room any more
        box = app.screen.query_one("#composer").region
        assert app.screen.query_one(Toast).region == (0, box.y - NOTICE_ROWS, size[0], NOTICE_ROWS)
        assert cut.startswith("word0 word1")
        assert cut.endswith("… F1 shows all of it")
        assert cut.count("\n") == 1
        drawn = [strip.text for strip in app.screen._compositor.render_strips()]
        assert "F1 shows all of it" in drawn[box.y - 1]  # no third row pushes it out, and the box is whole
        await pilot.press("f1")
        screen = app.screen
        assert isinstance(screen, HelpScreen)
        assert row_under_cursor(screen) == LONG
        detail = " ".join(
            " ".join(strip.text for strip in screen.detail.render_lines(screen.detail.outer_size.region)).strip("─ ").split()
        )
        assert detail == LONG or size[1] < 24  # which has fewer rows than it needs
        assert not any("word0" in text for text in shown(app))
        await pilot.press("f1", "f1")  # read
        assert isinstance(app.screen, HelpScreen)
        assert row_under_cursor(app.screen) != LONG


async def test_the_help_has_the_last_notices(make_chat: Make) -> None:
    async with chatting(make_chat(), size=(100, 30)) as (app, pilot):
        await pilot.press("f1")
        assert all(entry.title != "Recent notices" for entry in app.screen.listed.items)
        await pilot.press("f1")
        for n in range(RECENT + 2):
            app.tell(f"Notice {n}.")
        await pilot.press("f1")
        titles = [entry.title for entry in app.screen.listed.items]
        at = titles.index("Recent notices") + 1
        assert titles[at : at + RECENT + 1] == [*(f"Notice {n}." for n in range(RECENT + 1, 1, -1)), ""]
        await pilot.press(*"notice 5.")
        assert row_under_cursor(app.screen) == "Notice 5."


@pytest.mark.parametrize(
    ("environment", "begins"),
    [
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;specchat: Done"),
        ({"TERM": "xterm-kitty"}, "\x1b]9;specchat: Done"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "\a"),
        ({"TERM": "tmux-256color", "TMUX": "x", "TERM_PROGRAM": "iTerm.app"}, "\a"),
        ({"TERM": "screen", "STY": "x", "KITTY_WINDOW_ID": "1"}, "\a"),
        ({}, "\a"),
    ],
)
def test_what_a_terminal_gets(environment: dict[str, str], begins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERM", "TERM_PROGRAM", "KITTY_WINDOW_ID", "TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert notify.sequence("Done").startswith(begins)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, for notifications; a test moves it."""
    now = [100.0]
    monkeypatch.setattr(notify, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notifications that went to the terminal."""
    out: list[str] = []

    def write(self: object, data: str) -> None:
        if data.startswith("note "):  # Textual asks for the mouse pointer's shape as well
            out.append(data.removeprefix("note "))

    monkeypatch.setattr("specchat.app.tui.notify.sequence", lambda text: f"note {text}")
    monkeypatch.setattr("textual.drivers.headless_driver.HeadlessDriver.write", write)
    return out


async def ask(app: Any, pilot: Any, engine: Any, make_steps: Make) -> None:
    await command(pilot, "Hello")
    engine.begin(make_steps())
    await settle(app, pilot)


async def test_an_unseen_end_is_told(
    make_chat: Make, engine: Any, make_steps: Make, clock: list[float], written: list[str]
) -> None:
    async with chatting(make_chat(), engine) as (app, pilot):
        await ask(app, pilot, engine, make_steps)
        app.post_message(AppBlur())
        await settle(app, pilot)
        clock[0] += 30
        engine.finish()
        await settle(app, pilot)
        [notification] = written
        tokens = app.dialogue.transcript.answers()[0].figures.tokens
        assert notification == f"The answer has ended (finished): {tokens} tokens."


@pytest.mark.parametrize("case", ["in front", "soon", "by hand", "off", "back in front"])
async def test_nothing_is_told_where_nobody_waits_for_it(
    make_chat: Make, engine: Any, make_steps: Make, clock: list[float], written: list[str], case: str
) -> None:
    async with chatting(make_chat(notify=case != "off"), engine) as (app, pilot):
        await ask(app, pilot, engine, make_steps)
        if case != "in front":
            app.post_message(AppBlur())
        await settle(app, pilot)
        if case == "back in front":
            app.post_message(AppFocus())
            await settle(app, pilot)
        clock[0] += 1 if case == "soon" else 30
        if case == "by hand":
            await pilot.press("escape")
        engine.finish("cancelled" if case == "by hand" else "eos")
        await settle(app, pilot)
        assert written == []


async def test_a_key_for_what_had_the_focus_does_nothing_once_that_is_gone(make_chat: Make) -> None:
    async with chatting(make_chat()) as (app, pilot):
        app.screen.set_focus(None)
        await pilot.pause()
        assert not await app.run_action("focused.cursor_down")


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
