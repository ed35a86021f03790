"""What can be copied out of a chat, and going from message to message."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.entries import Answer, Prompt
from specchat.app.export.formats import FORMATS
from specchat.app.tui.actions import copy
from specchat.app.tui.actions.copy import code_blocks
from specchat.app.tui.pickers.menu import Menu
from specchat.engine.messages import PieceTable

from ....fakes.pilots import Make, ask, chatting, command, settle, toasts, until, worked

SIZE = (90, 26)
CODE = "Two ways.\n\n```python\ndef one():\n    return 1\n```\n\nOr:\n\n```sh\nmake two\n```\n"


async def test_one_of_several_blocks_is_chosen_by_its_preview(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        await ask(pilot, engine, "Code?", make_steps(CODE))
        await pilot.press("alt+y")
        assert isinstance(app.screen, Menu)
        await pilot.press("1")
        assert app.clipboard == "def one():\n    return 1"
        assert "block 1 of 2 (python, 2 lines)" in toasts(app)
        await pilot.press("alt+y", "down", "enter")
        assert app.clipboard == "make two"
        await command(pilot, "/copy code 1")
        assert app.clipboard.startswith("def one")
        await command(pilot, "/copy code 3")
        assert "has 2 blocks of code, but no number 3" in toasts(app)
        assert app.chat_screen.input.text == "/copy code 3", "what cannot be done stays to be mended"


async def test_the_run_under_the_cursor_is_copied(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        await ask(pilot, engine, "Why?", make_steps("Lamps light the long way home."))
        await pilot.press("f7", "home", "right", "ctrl+y")
        answer = app.dialogue.transcript.answers()[0]
        assert app.clipboard == answer.runs[1].text
        assert "Sent the pass '" in toasts(app)


async def test_control_characters_are_copied_as_they_are_shown(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await ask(pilot, engine, "Go", make_steps("a\x1b[201~rm\x07b\u202ec"))
        await pilot.press("ctrl+y")
        assert app.clipboard == "a␛[201~rm␇b\\u202ec"


async def test_a_tool_copies_beside_the_interface(
    make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def copy(text: str) -> str:
        given.append(text)
        return "xclip"

    monkeypatch.setattr("specchat.app.tui.actions.copy.clipboard_tool", lambda: ["xclip"])
    monkeypatch.setattr("specchat.app.tui.actions.copy.copy_with_tool", copy)
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        await ask(pilot, engine, "Hello", make_steps("A short one."))
        await pilot.press("ctrl+y", "ctrl+y")
        await app.workers.wait_for_complete()
        assert given == ["A short one."] * 2
        assert "Copied the answer with xclip." in toasts(app)


def marked_rows(app: Any) -> list[str]:
    view = app.chat_screen.view
    return [row for y in range(view.size.height) if "┃" in (row := view.render_line(y).text)]


async def test_messages_are_gone_through_marked_and_copied(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        for number in range(1, 6):
            await ask(pilot, engine, f"Question {number}?", make_steps(f"Answer {number}. " + "More words. \n" * 8))
        view = app.chat_screen.view
        await pilot.press("d", "alt+up")
        assert isinstance(view.mark.entry, Answer)
        assert view.mark.entry.text.startswith("Answer 5")
        assert all(row.index("┃") == view.margin - 3 for row in marked_rows(app))
        await pilot.press("alt+up")
        assert isinstance(view.mark.entry, Prompt)
        assert view.mark.entry.text == "Question 5?"
        await pilot.press("alt+up", "alt+up", "ctrl+y")
        assert app.clipboard == "Question 4?"
        [row] = marked_rows(app)
        assert "Question 4?" in row
        assert not view.following
        assert "message 7 of 10   ^y copies it   ^o w writes it anew" in app.chat_screen.query_one("#status").render().plain
        await pilot.press("alt+up", "ctrl+y")
        assert app.clipboard.startswith("Answer 3")
        assert "the marked answer" in toasts(app)
        assert app.chat_screen.input.text == "d", "the input box keeps the keys"
        await pilot.press("alt+up", "alt+up", "alt+up", "alt+up", "alt+up", "alt+up")
        assert view.mark.entry is app.dialogue.transcript.entries[0]
        await pilot.press("alt+down")
        assert view.mark.entry is app.dialogue.transcript.entries[1]
        await pilot.press("escape")
        assert view.mark.entry is None
        assert marked_rows(app) == []


# Copies, with programs of the test's own in the place of the system's tools


TEXT = "def f():\n    return 'Grüße 👩‍👩‍👧'\n"


@pytest.fixture
def xclip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes an xclip that is first on the PATH; a file for what it is given."""
    for name, value in (("WAYLAND_DISPLAY", ""), ("DISPLAY", ":9"), ("PATH", f"{tmp_path}:/usr/bin:/bin")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")

    def make(script: str) -> Path:
        file = tmp_path / "xclip"
        file.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "board"

    return make


def test_a_tool_has_the_text(xclip: Callable[[str], Path]) -> None:
    board = xclip("cat > board")
    assert copy.copy_with_tool(TEXT) == "xclip"
    assert board.read_text() == TEXT


@pytest.mark.parametrize("script", ["exit 1", "sleep 60"], ids=["fails", "hangs"])
def test_a_tool_that_does_not_take_it_has_not_copied(
    xclip: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(copy, "TIMEOUT_SECONDS", 0.2)
    xclip(script)
    assert copy.copy_with_tool(TEXT) == ""


def test_there_is_no_tool_where_there_is_no_screen(xclip: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    xclip("cat > board")
    monkeypatch.delenv("DISPLAY")
    assert copy.copy_with_tool(TEXT) == ""


# The code in an answer


ANSWER = """First:

```python
def f():
    return 1

```

Then in a list:

1. run it

   ```sh
   make test
   ```

And indented:

    x = 1
    y = 2

Tildes, with backticks inside:

~~~
```
~~~
"""


def test_every_kind_of_block_is_found_as_it_stands() -> None:
    found = [(block.language, block.text) for block in code_blocks(ANSWER)]
    assert found == [("python", "def f():\n    return 1\n"), ("sh", "make test"), ("", "x = 1\ny = 2"), ("", "```")]


def test_a_block_that_is_still_being_written_counts_as_far_as_it_goes() -> None:
    assert [block.text for block in code_blocks("So:\n\n```c\nint a;\nint b")] == ["int a;\nint b"]


def test_prose_has_none() -> None:
    assert code_blocks("A sentence with `code` in it.\nAnd    spaces.") == []


def test_a_preview_shows_controls_and_fits() -> None:
    [block] = code_blocks("```\n\x1b[31mred\n\n\tlong " + "x" * 200 + "\nthree\nfour\n```")
    assert block.lines == 5
    lines = block.preview(20).split("\n")
    assert lines[0] == "␛[31mred"
    assert lines[1].startswith("    long x")
    assert all(len(line) <= 24 for line in lines)
    assert lines[-1] == "…"


@given(st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    for block in code_blocks(f"```{text}\n{text}"):
        assert "\x1b" not in block.preview(40)


# Exporting and opening from the chat: by key, command, help and command line, and chats that come back


pytestmark = pytest.mark.usefixtures("here")


def full_toasts(app: Any) -> str:
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


async def enter_command(app: Any, pilot: Any, text: str) -> None:
    app.chat_screen.input.put(text)
    await pilot.press("enter")
    await pilot.pause()


async def test_exporting_by_command(make_chat: Make, engine: Any, make_steps: Make, here: Path) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await converse(app, pilot, engine, make_steps)
        for format in FORMATS:
            await enter_command(app, pilot, f"/export 'my chat.{format}'")
            await until(pilot, lambda: "Saved as" in full_toasts(app))
            starts = {"html": "<!DOCTYPE html>", "md": "# specchat", "json": "{"}[format]
            assert (here / f"my chat.{format}").read_text().startswith(starts)
            await enter_command(app, pilot, f"/export 'my chat.{format}'")
            await until(pilot, lambda: "already exists" in full_toasts(app))
            assert sorted(here.glob(f"*.{format}")) == [here / f"my chat-2.{format}", here / f"my chat.{format}"]
            await enter_command(app, pilot, f"/export {format} 'my chat' !")
            await until(pilot, lambda: "Saved as" in full_toasts(app) and "was there already" not in full_toasts(app))
            assert len([*here.glob(f"*.{format}")]) == 2
            app.clear_notifications()


async def test_what_goes_wrong_is_told_and_the_command_stays_in_the_box(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await converse(app, pilot, engine, make_steps)
        await enter_command(app, pilot, "/export chat.exe")
        assert "ends in .exe" in full_toasts(app)
        assert app.chat_screen.input.text == "/export chat.exe"
        await enter_command(app, pilot, "/export nowhere/chat.html")
        await until(pilot, lambda: "there is no such folder" in full_toasts(app))
        assert app.chat_screen.input.text == "/export nowhere/chat.html", "the place can be corrected"
        await enter_command(app, pilot, "/export html two names")
        assert "quotes" in full_toasts(app)
        await enter_command(app, pilot, "/open nothing.json")
        await until(pilot, lambda: "There is no file" in full_toasts(app))
        await enter_command(app, pilot, "/open")
        assert "/open takes a chat or a race" in full_toasts(app)
        assert len(app.dialogue.transcript.entries) == 2


async def test_a_refused_command_goes_where_nothing_of_it_can_be_corrected(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box = app.chat_screen.input
        for text in ("/export chat.md", "/think", "/think hard", "/copy thought", "/retry", "/edit 2", "/branch B"):
            await enter_command(app, pilot, text)
            assert (text, box.text) == (text, "")
        await pilot.press("up")
        assert box.text == "/branch B", "it can be gone back to"
        for text in ("/colours blue", "/copy everything", "/exprot", "/open", "/set heat=1", "/model a b"):
            await enter_command(app, pilot, text)
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
