"""Text in the transcript: found by /find, pointed at by a double click, and where a search of all chats leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ....fakes.pilots import ask, chatting, command, shown, toasts

Make = Callable[..., Any]

# Cells of it are no characters, and it has two lines however wide the terminal is.
ANSWER = "漢字\tthe first Needle.\nAnd a needle\nagain 👍🏽, then nothing\n" + "more\n" * 60


def selected(app: Any) -> str:
    return app.chat_screen.get_selected_text() or ""


@pytest.mark.parametrize("markdown", [False, True], ids=["runs", "Markdown"])
async def test_find_selects_one_match_after_the_other_and_shows_it(
    make_chat: Make, engine: Any, make_steps: Make, markdown: bool
) -> None:
    async with chatting(make_chat(), size=(60, 20), notifications=True) as (app, pilot):
        await ask(pilot, engine, "Where is the NEEDLE?", make_steps(ANSWER))
        app.chat_screen.view.markdown = markdown
        await pilot.pause()
        found = []
        for _ in range(4):
            await command(pilot, "/find needle")
            found.append(selected(app))
        assert found == ["needle", "Needle", "NEEDLE", "needle"]  # and from the end again
        assert "Match 3 of 3 for “needle”." in toasts(app)
        assert "And a needle" in shown(app)
        await pilot.press("alt+slash")
        assert selected(app) == "Needle"
        await command(pilot, "/find needle again 👍🏽")
        assert selected(app).split() == ["needle", "again", "👍🏽"]  # over the end of a line
        await pilot.press("escape")
        assert selected(app) == ""
        await command(pilot, "/find haystack")
        assert "does not contain “haystack”" in toasts(app)


async def test_alone_it_asks_what_to_find(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine) as (app, pilot):
        await pilot.press("alt+slash")
        assert app.box.text == "/find "


@pytest.mark.parametrize(
    ("text", "cell", "word"), [("漢字\tthe first", 1, "漢字"), ("漢字\tthe first", 12, "first"), ("a 👍🏽b c", 4, "b")]
)
async def test_a_double_click_selects_a_word(
    make_chat: Make, engine: Any, make_steps: Make, text: str, cell: int, word: str
) -> None:
    async with chatting(make_chat(), size=(60, 20)) as (app, pilot):
        await ask(pilot, engine, "Hello", make_steps(text))
        view = app.chat_screen.view
        at = (view.margin + cell, view.tops[1] - view.scroll_offset.y)
        await pilot.click(view, at, times=2)
        assert selected(app) == word
