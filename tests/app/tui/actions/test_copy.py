"""Copying out of a chat, going from message to message, exporting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.tui.actions import copy
from specchat.app.tui.actions.copy import code_blocks
from specchat.app.tui.pickers.menu import Menu

from ....fakes.pilots import Make, ask, chatting, command, toasts, workers_done

SIZE = (90, 26)
CODE = "Two ways.\n\n```python\ndef one():\n    return 1\n```\n\nOr:\n\n```sh\nmake two\n```\n"


async def test_answers_blocks_and_marked_messages_are_copied(
    make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait for each copy, as the tool works in the background."""
    copies: list[str] = []

    def copy(text: str) -> str:
        copies.append(text)
        return "xclip"

    monkeypatch.setattr("specchat.app.tui.actions.copy.clipboard_tool", lambda: ["xclip"])
    monkeypatch.setattr("specchat.app.tui.actions.copy.copy_with_tool", copy)
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        await ask(pilot, engine, "Go", make_steps("a\x1b[201~rm\x07b\u202ec"))
        await pilot.press("ctrl+y", "ctrl+y")
        await app.workers.wait_for_complete()
        assert copies == ["a␛[201~rm␇b\\u202ec"] * 2, "as they are shown"
        assert "Copied the answer with xclip." in toasts(app)
        await ask(pilot, engine, "Code?", make_steps(CODE))
        await pilot.press("alt+y")
        assert isinstance(app.screen, Menu)
        await pilot.press("1")
        assert app.clipboard == "def one():\n    return 1"
        assert "block 1 of 2 (python, 2 lines)" in toasts(app)
        await command(pilot, "/copy code")
        await pilot.press("down", "enter")
        assert app.clipboard == "make two"
        view, entries = app.chat_screen.view, app.dialogue.transcript.entries
        await pilot.press("d", "alt+up", "alt+up", "ctrl+y")
        assert app.clipboard == "Code?"
        [row] = marked_rows(app)
        assert "Code?" in row
        assert row.index("┃") == view.margin - 3
        assert "message 3 of 4" in app.chat_screen.query_one("#status").render().plain
        assert app.chat_screen.input.text == "d", "the input box keeps the keys"
        await pilot.press("alt+up", "alt+up", "alt+up", "alt+up")
        assert view.mark.entry is entries[0]
        await pilot.press("alt+down")
        assert view.mark.entry is entries[1]
        await pilot.press("escape")
        assert (view.mark.entry, marked_rows(app)) == (None, [])


def marked_rows(app: Any) -> list[str]:
    view = app.chat_screen.view
    return [row for y in range(view.size.height) if "┃" in (row := view.render_line(y).text)]


TEXT = "def f():\n    return 'Grüße 👩‍👩‍👧'\n"


def test_a_tool_has_the_text_unless_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WAYLAND_DISPLAY", ""), ("DISPLAY", ":9"), ("PATH", f"{tmp_path}:/usr/bin:/bin")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(copy, "TIMEOUT_SECONDS", 0.2)
    tool = tmp_path / "xclip"
    tool.touch(0o700)
    for script in ("exit 1", "sleep 60"):
        tool.write_text(f"#!/bin/sh\n{script}\n")
        assert copy.copy_with_tool(TEXT) == ""
    monkeypatch.setattr(copy, "TIMEOUT_SECONDS", 30.0)
    tool.write_text(f"#!/bin/sh\ncat > {tmp_path}/board\n")
    assert copy.copy_with_tool(TEXT) == "xclip"
    assert (tmp_path / "board").read_text() == TEXT
    monkeypatch.delenv("DISPLAY")
    assert copy.copy_with_tool(TEXT) == "", "there is no screen"


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
    blocks = [(block.language, block.text) for block in code_blocks(ANSWER)]
    assert blocks == [("python", "def f():\n    return 1\n"), ("sh", "make test"), ("", "x = 1\ny = 2"), ("", "```")]

    assert [block.text for block in code_blocks("So:\n\n```c\nint a;\nint b")] == ["int a;\nint b"], "still being written"
    assert code_blocks("A sentence with `code` in it.\nAnd    spaces.") == []


@given(st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    for block in code_blocks(f"```{text}\n{text}"):
        assert block.text.strip()


async def test_exports(
    make_chat: Make, engine: Any, make_steps: Make, empty_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_EXPORTS", str(tmp_path / "papers" / "chats"))
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await ask(pilot, engine, "How does it work?", make_steps())
        for format, start in {"html": "<!DOCTYPE html>", "md": "# specchat", "json": "{"}.items():
            for count in (1, 2):  # the second is numbered
                await command(pilot, f"/export 'my chat.{format}'")
                await workers_done(pilot)
                assert "Saved as" in app.recent[-1].message
                assert len([*empty_folder.glob(f"*.{format}")]) == count
            assert (empty_folder / f"my chat.{format}").read_text().startswith(start)
        await pilot.press("alt+s")
        assert "papers/chats" in str(app.screen.frame.border_title)
        await pilot.press("2")
        await workers_done(pilot)
    (file,) = (tmp_path / "papers" / "chats").iterdir()  # made for it
    assert file.suffix == ".md"
