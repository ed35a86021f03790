"""Text in the transcript: found by /find, pointed at by a double click, and where a search of all chats leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specchat.app.chat.entries import Prompt
from specchat.app.tui.transcript.find import TextFinder

from ....fakes.pilots import ask, command, loaded, settle, shown, toasts

Make = Callable[..., Any]

# Cells of it are no characters, and it has two lines however wide the terminal is.
ANSWER = "漢字\tthe first Needle.\nAnd a needle\nagain 👍🏽, then nothing\n" + "more\n" * 60


def selected(app: Any) -> str:
    return app.chat_screen.get_selected_text() or ""


@pytest.mark.parametrize("markdown", [False, True], ids=["runs", "Markdown"])
async def test_find_selects_one_match_after_the_other_and_shows_it(
    make_chat: Make, engine: Any, make_steps: Make, markdown: bool
) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20), notifications=True) as pilot:
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
    app = make_chat()
    async with app.run_test() as pilot:
        await loaded(pilot, engine)
        await pilot.press("alt+slash")
        assert app.box.text == "/find "


@pytest.mark.parametrize(
    ("text", "cell", "word"), [("漢字\tthe first", 1, "漢字"), ("漢字\tthe first", 12, "first"), ("a 👍🏽b c", 4, "b")]
)
async def test_a_double_click_selects_a_word(
    make_chat: Make, engine: Any, make_steps: Make, text: str, cell: int, word: str
) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        await ask(pilot, engine, "Hello", make_steps(text))
        view = app.chat_screen.view
        at = (view.margin + cell, view.tops[1] - view.scroll_offset.y)
        await pilot.click(view, at, times=2)
        assert selected(app) == word


async def test_what_is_selected_goes_when_lines_break_elsewhere(make_chat: Make, engine: Any, make_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        await ask(pilot, engine, "Hello", make_steps("a needle"))
        await command(pilot, "/find needle")
        await pilot.resize_terminal(40, 20)
        await settle(app, pilot)
        assert selected(app) == ""


async def test_an_entry_whose_text_is_not_shown_is_shown_from_its_beginning(
    make_chat: Make, engine: Any, make_steps: Make
) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        await ask(pilot, engine, "Hello", make_steps(ANSWER))
        view = app.chat_screen.view
        finder: TextFinder = view.finder
        finder.show(view.transcript.entries[0], "in an attachment")
        assert view.scroll_offset.y == 0
        finder.show(Prompt("of another chat"), "Hello")
        assert view.scroll_offset.y == 0
        assert selected(app) == ""
