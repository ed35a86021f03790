"""A word to who looks elsewhere when a long answer, a race or a download ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.events import AppBlur, AppFocus

from specchat.app.tui import notify

from ...fakes.pilots import chatting, command, settle

Make = Callable[..., Any]


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
