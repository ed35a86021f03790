"""The history in the chat itself: kept as it is written, the list of chats and /rename."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from specchat.app.history.chats import ChatRow
from specchat.app.history.store import Store
from specchat.app.tui.pickers.chats import ChatsScreen

from ....fakes.pilots import Make, ask, chatting, command, settle, toasts

SIZE = (100, 30)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


async def say(app: Any, pilot: Any, engine: Any, make_steps: Make, text: str, finish: bool = True, saved: bool = True) -> None:
    """Ask, and let the engine answer."""
    await ask(pilot, engine, text, make_steps(), finish=finish)
    app.chat_history.record()
    assert app.chat_history.recorder.settle(10.0 if saved else 0.1) == saved


async def several(app: Any, pilot: Any, engine: Any, make_steps: Make, *texts: str) -> None:
    """Chats of one question each."""
    for i, text in enumerate(texts):
        if i:
            app.new_chat()
        await say(app, pilot, engine, make_steps, text)


async def browse(app: Any, pilot: Any, query: str = "") -> ChatsScreen:
    app.chat_history.browse(query)
    await pilot.pause()
    screen = app.screen
    assert isinstance(screen, ChatsScreen)
    await pilot.pause()
    return screen


def titles(screen: ChatsScreen) -> list[str]:
    return [(item if hasattr(item, "title") else item.chat).title for item in screen.listed.items]


def note(screen: ChatsScreen) -> str:
    return str(screen.query_one("#note").render())


def shown(screen: ChatsScreen) -> str:
    return "\n".join(screen.listed.render_line(y).text for y in range(screen.listed.size.height))


async def test_a_chat_that_was_found_opens_at_the_match(make_kept: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_kept(), size=(80, 16)) as (app, pilot):
        await say(app, pilot, engine, make_steps, "Where is the needle?")
        for _ in range(4):
            await say(app, pilot, engine, make_steps, "And the hay?")
        app.new_chat()
        for expected in ("needle", "needle"):  # from another chat, and in the chat that is shown
            screen = await browse(app, pilot, "needle where")
            assert len(screen.listed.items) == 1
            await pilot.press("enter")
            view = app.chat_screen.view
            assert app.chat_screen.get_selected_text() == expected
            assert view.scroll_offset.y == 0
            assert not view.following
            view.follow()


async def test_without_a_history_nothing_is_kept(make_chat: Make, engine: Any, make_steps: Make, folder: Path) -> None:
    async with chatting(make_chat(), engine, size=SIZE, notifications=True) as (app, pilot):
        await command(pilot, "A secret")
        engine.begin(make_steps())
        engine.finish()
        await settle(app, pilot)
        await command(pilot, "/rename Hidden")
        assert "This chat is not being saved" in toasts(app)
        assert app.chat_screen.input.text == "", "no other title would help"
    assert not folder.exists()


async def test_the_list_opens_a_chat_and_the_next_message_goes_on_there(make_kept: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_kept(), size=SIZE, notifications=True) as (app, pilot):
        await several(app, pilot, engine, make_steps, "First lamp", "Second lamp", "Third lamp")
        before = [strip.text for strip in map(app.chat_screen.view.render_line, range(20))]
        await pilot.press("alt+h")
        screen = app.screen
        assert titles(screen) == ["Third lamp", "Second lamp", "First lamp"]
        assert "● Third lamp" in shown(screen)
        assert "1 answer · builtin" in shown(screen)
        await pilot.press("down", "down", "enter")
        assert app.screen is app.chat_screen
        assert "Opened First lamp." in toasts(app)
        after = [strip.text for strip in map(app.chat_screen.view.render_line, range(20))]
        assert after == [row.replace("Third", "First") for row in before]
        await say(app, pilot, engine, make_steps, "And then?")
        assert [message["content"] for message in engine.asked.messages[:1]] == ["First lamp"]
        await say(app, pilot, engine, make_steps, "Go on", finish=False)
        screen = await browse(app, pilot)
        assert titles(screen) == ["First lamp", "Third lamp", "Second lamp"]
        assert "3 answers" in shown(screen)
        await pilot.press("ctrl+d")
        assert "Stop it first" in note(screen)
        await pilot.press("down", "enter")
        assert "An answer is being written" in toasts(app)
        assert app.dialogue.transcript.entries[0].text == "First lamp"


async def test_chats_are_renamed_deleted_and_brought_back(make_kept: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_kept(), size=SIZE) as (app, pilot):
        await several(app, pilot, engine, make_steps, "First", "Second", "Third")
        screen = await browse(app, pilot)
        await pilot.press("ctrl+r")
        assert app.screen.text == "Third"
        await pilot.press(*" one", "enter")
        assert titles(screen) == ["Third one", "Second", "First"]
        await pilot.press("down", "ctrl+r", *"x", "escape", "escape")
        assert titles(screen) == ["Third one", "Second", "First"]
        await pilot.press("ctrl+r", *["backspace"] * 6, "enter")
        assert "needs at least one character" in str(app.screen.query_one("#text-about").render())
        await pilot.press("escape", "ctrl+d")
        assert titles(screen) == ["Third one", "First"]
        assert note(screen) == "Deleted “Second”. ^z undoes this (kept 30 days)."
        await pilot.press("ctrl+d", "escape")
        await say(app, pilot, engine, make_steps, "More")
        screen = await browse(app, pilot)
        assert titles(screen) == ["Third one"]
        assert "^z undo" in str(screen.query_one("Vertical").border_subtitle)
        await pilot.press("ctrl+z")
        assert titles(screen) == ["Third one", "First"]
        await pilot.press("ctrl+z", "ctrl+z")
        assert titles(screen) == ["Third one", "Second", "First"]
        assert isinstance(screen.listed.item, ChatRow)
        assert screen.listed.item.title == "Second"


@pytest.mark.parametrize("keys", ["", "lamp"], ids=["list", "search"])
def test_pictures(
    picture: Make, make_kept: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    now = 1_795_000_000.0
    monkeypatch.setattr("specchat.app.tui.pickers.chats.time", lambda: now)

    async def before(pilot: Any) -> None:
        prompts = (
            "How does prompt lookup work?",
            "A poem about an old lighthouse on a northern rock, its lamp, its keeper, and the weather of every single day",
            "燈塔看守人",
            "Why is the sky dark at night? [bold]And the lamp[/bold]?",
            "\x1b[31mRed\x1b[0m lamp",
        )
        await pilot.pause()
        await several(pilot.app, pilot, engine, make_steps, *prompts)
        with Store() as store:
            for id in range(1, 6):
                store.db.execute("UPDATE chats SET changed = ? WHERE id = ?", (now - (5 - id) ** 3 * 20 * 3600, id))
        pilot.app.clear_notifications()
        await browse(pilot.app, pilot)
        if keys:
            await pilot.press(*keys)
        await pilot.press("down")
        if not keys:
            await pilot.press("ctrl+d")

    assert picture(before, make_kept)
