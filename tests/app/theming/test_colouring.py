"""The ways of telling runs apart: by key, command and setting, in every row at once, and without colours."""

from __future__ import annotations

from typing import Any

import pytest
from rich.style import Style

from specchat.app.chat.entries import Answer
from specchat.app.chat.pieces import Pieces
from specchat.app.chat.runs import SHADES
from specchat.app.render.tree_page import tree_lines
from specchat.app.settings.actions import ACTIONS
from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed
from specchat.app.theming.colouring import INKS, WAYS, bared, effective, ink_name, inks_of, legend
from specchat.app.theming.themes import load_themes
from specchat.errors import UserError

from ...fakes.pilots import Make, ask, chatting


async def answered(pilot: Any, engine: Any, make_steps: Make) -> None:
    """A chat with one answer."""
    await ask(pilot, engine, "How does prompt lookup work?", make_steps())


def styles(app: Any) -> list[Style]:
    """Styles of the visible text of the answer, by run."""
    view = app.chat_screen.view
    found: dict[int, Style] = {}
    for y in range(view.size.height):
        place = view.row_at(y)
        if place is None or view.blocks[place[0]].row(place[1]).kind != "answer":
            continue
        for segment in view.render_line(y):
            if segment.text.strip() and segment.style is not None:
                found[len(found)] = segment.style
    return list(found.values())


def test_neighbours_differ_and_the_colour_tells_the_length() -> None:
    for shade in range(SHADES):
        for way in ("length", "underline"):
            assert ink_name(way, shade, 3) != ink_name(way, (shade + 1) % SHADES, 3)
    lengths = [ink_name("length", 0, tokens) for tokens in (1, 2, 3, 4, 5, 6, 7, 8, 40)]
    assert lengths == ["plain", *(f"heat-{step}" for step in (1, 2, 3, 3, 4, 4, 5, 5))]
    assert {ink_name("length", shade, 1) for shade in (-1, -2)} == {"plain"}, "single tokens are calm"
    assert ink_name("off", 3, 5) == "plain"
    for way in WAYS:
        assert set(inks_of(way)) <= set(INKS)


def test_the_legend_is_the_scale_in_words() -> None:
    assert "".join(text for text, _ in legend("length")) == " 1  2  3  4–5  6–7  8+  tokens a pass"
    inks = [ink for _, ink in legend("length") if ink]
    assert inks == [ink_name("length", 0, int(text.strip()[0])) for text, ink in legend("length") if ink]
    for way in WAYS:
        assert {ink for _, ink in legend(way) if ink} <= set(inks_of(way))


def test_blanks_around_a_run_are_gaps() -> None:
    assert bared("  a b ") == ("  ", "a b", " ")
    assert bared("ab") == ("", "ab", "")
    assert bared("  ") == ("  ", "", "")


def test_without_colours_there_are_lines() -> None:
    assert [effective(way, True) for way in WAYS] == ["underline", "off"]
    assert [effective(way, False) for way in WAYS] == list(WAYS)


async def test_the_key_changes_every_row_and_nothing_else(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=(100, 24)) as (app, pilot):
        await answered(pilot, engine, make_steps)
        app.chat_screen.input.put("a draft")
        seen = {}
        for way in ("off", "length"):
            await pilot.press("f6")
            await pilot.pause()
            assert app.chat_screen.view.colouring == way
            seen[way] = styles(app)
        assert len({str(found) for found in seen.values()}) == len(WAYS)
        assert len({str(style.color) for style in seen["length"]}) >= 4
        assert not any(style.underline for style in seen["length"] + seen["off"])
        assert len({str(style.color) for style in seen["off"]}) == 1
        assert app.chat_screen.input.text == "a draft"


async def test_the_command_names_a_way_and_the_nearest_one_if_there_is_none(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat()) as (app, pilot):
        await pilot.pause()
        app.actions.command("/colours off")
        assert app.chat_screen.view.colouring == "off"
        with pytest.raises(UserError, match="did you mean length"):
            app.actions.command("/colours lengths")
        app.actions.command("/colours")
        assert app.chat_screen.view.colouring == "length"
    assert [list(row.words) for row in ACTIONS if row.id == "colours"] == [list(WAYS)]


async def test_the_setting_counts_from_the_start(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(colours="off")) as (app, pilot):
        await pilot.pause()
        assert app.chat_screen.view.colouring == "off"
    with pytest.raises(UserError, match="length"):
        changed(Settings(), {"colours": "rainbow"})


@pytest.mark.parametrize("theme", load_themes()[0])
def test_a_step_of_the_scale_has_one_colour_in_legend_text_and_tree(theme: str, tree_steps: Make) -> None:
    variables = load_themes()[0][theme].variables() | dict(load_themes()[0][theme].colours)

    def drawn(name: str) -> tuple[str, str]:
        ink = INKS[name].of(variables)
        return ink.colour, ink.behind

    samples = {name: drawn(name) for text, name in legend("length") if name}
    for tokens in range(1, 12):
        found = {drawn(ink_name("length", shade, tokens)) for shade in range(SHADES)}
        assert found == {samples[ink_name("length", 0, tokens)]}, tokens
    answer = Answer("fusion", "identical")
    for step in tree_steps():
        answer.add(step)
    rows = tree_lines(answer, 1, Pieces([]), 60, 40)
    signs = {sign: {style for row in rows for text, style in row if text.strip() == sign} for sign in "●┃"}
    assert all(len(styles) == 1 for styles in signs.values()), signs
