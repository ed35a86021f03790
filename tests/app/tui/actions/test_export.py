"""Exporting and opening from the chat: by key, command, help and command line, and chats that come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.app.export.formats import FORMATS
from specchat.engine.messages import PieceTable

from ....fakes.pilots import Make, ask, chatting, settle, until, worked

SIZE = (90, 26)

pytestmark = pytest.mark.usefixtures("here")


def toasts(app: Any) -> str:
    """What is still on the screen, in full."""
    shown = {notification.identity for notification in app._notifications}
    return " ".join(notification.message for notification in app.recent if notification.identity in shown)


async def converse(app: Any, pilot: Any, engine: Any, make_steps: Make, finish: bool = True) -> None:
    await pilot.pause()
    engine.loaded()
    engine.events.append(PieceTable(2, [f"<{i}>" for i in range(12)]))
    await settle(app, pilot)
    app.chat_screen.input.put("How does it work?")
    await pilot.press("enter")
    engine.begin(make_steps())
    if finish:
        engine.finish(tail="!")
    await settle(app, pilot)


async def command(app: Any, pilot: Any, text: str) -> None:
    app.chat_screen.input.put(text)
    await pilot.press("enter")
    await pilot.pause()


async def test_exporting_by_command(make_chat: Make, engine: Any, make_steps: Make, here: Path) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await converse(app, pilot, engine, make_steps)
        for format in FORMATS:
            await command(app, pilot, f"/export 'my chat.{format}'")
            await until(pilot, lambda: "Saved as" in toasts(app))
            starts = {"html": "<!DOCTYPE html>", "md": "# specchat", "json": "{"}[format]
            assert (here / f"my chat.{format}").read_text().startswith(starts)
            await command(app, pilot, f"/export 'my chat.{format}'")
            await until(pilot, lambda: "already exists" in toasts(app))
            assert sorted(here.glob(f"*.{format}")) == [here / f"my chat-2.{format}", here / f"my chat.{format}"]
            await command(app, pilot, f"/export {format} 'my chat' !")
            await until(pilot, lambda: "Saved as" in toasts(app) and "was there already" not in toasts(app))
            assert len([*here.glob(f"*.{format}")]) == 2
            app.clear_notifications()


async def test_what_goes_wrong_is_told_and_the_command_stays_in_the_box(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await converse(app, pilot, engine, make_steps)
        await command(app, pilot, "/export chat.exe")
        assert "ends in .exe" in toasts(app)
        assert app.chat_screen.input.text == "/export chat.exe"
        await command(app, pilot, "/export nowhere/chat.html")
        await until(pilot, lambda: "there is no such folder" in toasts(app))
        assert app.chat_screen.input.text == "/export nowhere/chat.html", "the place can be corrected"
        await command(app, pilot, "/export html two names")
        assert "quotes" in toasts(app)
        await command(app, pilot, "/open nothing.json")
        await until(pilot, lambda: "There is no file" in toasts(app))
        await command(app, pilot, "/open")
        assert "/open takes a chat or a race" in toasts(app)
        assert len(app.dialogue.transcript.entries) == 2


async def test_a_refused_command_goes_where_nothing_of_it_can_be_corrected(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box = app.chat_screen.input
        for text in ("/export chat.md", "/think", "/think hard", "/copy thought", "/retry", "/edit 2", "/branch B"):
            await command(app, pilot, text)
            assert (text, box.text) == (text, "")
        await pilot.press("up")
        assert box.text == "/branch B", "it can be gone back to"
        for text in ("/colours blue", "/copy everything", "/exprot", "/open", "/set heat=1", "/model a b"):
            await command(app, pilot, text)
            assert box.text == text
            assert box.cursor_location == (0, len(text))


async def test_an_export_without_a_name_says_where_it_goes(
    make_chat: Make, engine: Any, make_steps: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a folder of its own, which is made for it: not wherever specchat was started."""
    monkeypatch.chdir(tmp_path)
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        monkeypatch.setenv("SPECCHAT_EXPORTS", str(tmp_path / "papers" / "chats"))
        await ask(pilot, engine, "Hello", make_steps())
        await pilot.press("alt+s")
        assert "papers/chats" in str(app.screen.frame.border_title)
        await pilot.press("2")
        await worked(pilot)
    (file,) = (tmp_path / "papers" / "chats").iterdir()
    assert file.suffix == ".md"
