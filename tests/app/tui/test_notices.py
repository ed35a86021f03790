"""Notices beside the chat: how much room they take, when they go, and where their text can still be read."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import AppBlur, AppFocus
from textual.widgets._toast import Toast

from specchat.app.tui import notify
from specchat.app.tui.keys.help import HelpScreen
from specchat.app.tui.terminal_app import NOTICE_ROWS, RECENT

from ...fakes.pilots import Make, chatting, command, settle, until

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
        told = " ".join(
            " ".join(strip.text for strip in screen.detail.render_lines(screen.detail.outer_size.region)).strip("─ ").split()
        )
        assert told == LONG or size[1] < 24  # which has fewer rows than it needs
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


# A word to who looks elsewhere when a long answer, a race or a download ends


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
def test_a_terminal_gets_only_what_it_is_known_to_have(
    environment: dict[str, str], begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """What went to the terminal as a notification."""
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


async def test_a_long_answer_that_ends_unseen_is_told(
    make_chat: Make, engine: Any, make_steps: Make, clock: list[float], written: list[str]
) -> None:
    async with chatting(make_chat(), engine) as (app, pilot):
        await ask(app, pilot, engine, make_steps)
        app.post_message(AppBlur())
        await settle(app, pilot)
        clock[0] += 30
        engine.finish()
        await settle(app, pilot)
        [told] = written
        tokens = app.dialogue.transcript.answers()[0].figures.tokens
        assert told == f"The answer has ended (finished): {tokens} tokens."


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
