"""The list behind every search: where the cursor may stand, what is drawn, and its keys."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult

from specchat.app.settings.keymap import conflicts
from specchat.app.text.lines import StyledLine
from specchat.app.tui.pickers.pick_list import PickList


class Listing(App[None]):
    """A list of words; those in capitals are headings."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[str] = []
        self.listed = PickList[str](lambda word: None if word.isupper() else word, self.draw)

    def draw(self, word: str, cells: int) -> tuple[StyledLine]:
        self.drawn.append(word)
        return (((word[:cells], ""),),)

    def compose(self) -> ComposeResult:
        yield self.listed


async def test_the_cursor_passes_over_headings_and_stays_at_the_ends() -> None:
    async with (app := Listing()).run_test(size=(40, 10)):
        app.listed.show(["A", "ant", "B", "bee", "bug"])
        assert app.listed.item == "ant"
        app.listed.move(1)
        assert app.listed.item == "bee"
        app.listed.move(9)
        assert app.listed.item == "bug"
        app.listed.move(-9)
        assert app.listed.item == "ant"


async def test_the_cursor_goes_to_what_was_named_else_to_the_nearest() -> None:
    async with (app := Listing()).run_test(size=(40, 10)):
        app.listed.show(["A", "ant", "B", "bee"], "bee")
        assert app.listed.item == "bee"
        app.listed.show(["A", "ant", "B"], "bee", at=2)
        assert app.listed.item == "ant"
        app.listed.show(["A"])
        assert app.listed.item is None
        app.listed.show([])
        assert app.listed.item is None


async def test_of_many_items_only_those_that_are_seen_are_drawn() -> None:
    async with (app := Listing()).run_test(size=(40, 10)) as pilot:
        words = [f"word {number}" for number in range(10_000)]
        app.listed.show(words)
        await pilot.pause()
        assert len(set(app.drawn)) <= 10
        app.listed.move(20_000)
        await pilot.pause()
        assert app.listed.item == "word 9999"
        assert "word 9999" in app.listed.render_line(app.listed.size.height - 1).text


def test_keys_of_every_list_conflict_with_those_of_each() -> None:
    told: dict[str, Any] = {"list_below": "ctrl+f"}
    assert conflicts(told) == [
        "ctrl+f is the key of both list_below and prompts_older: give one of them another under [keymap]."
    ]
    assert conflicts({"models_cancel": "ctrl+f"}) == [], "they are never there together"
