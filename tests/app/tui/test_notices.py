"""Notices beside the chat: how much room they take, when they go, and where their text can still be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.widgets._toast import Toast

from specchat.app.tui.keys.help import HelpScreen
from specchat.app.tui.terminal_app import NOTICE_ROWS, RECENT

from ...fakes.pilots import chatting, until

Make = Callable[..., Any]
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
        app.tell("A short one.", "warning")
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
