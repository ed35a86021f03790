"""Themes on terminals with 256 and with 16 colours."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from rich._palettes import EIGHT_BIT_PALETTE
from rich.color import Color, ColorSystem

from specchat.app.chat.runs import SHADES
from specchat.app.theming.colouring import INKS, Colouring, ink_name, inks_of
from specchat.app.theming.colours import contrast, distance
from specchat.app.theming.few_colours import nearest, reduced, shown
from specchat.app.theming.sixteen_colours import sixteen
from specchat.app.theming.themes import APART, READABLE, SHIPPED, STEPS, VISIBLE, load_themes

NAMES = sorted(path.stem for path in SHIPPED.glob("*.toml"))


def painted(colour: str) -> str:
    """What a terminal with 256 colours shows of one."""
    number = Color.parse(colour).downgrade(ColorSystem.EIGHT_BIT).number
    assert number is not None
    return EIGHT_BIT_PALETTE[number].hex


@pytest.mark.parametrize("name", NAMES)
def test_themes_stay_readable_in_256_colours(name: str) -> None:
    palette = reduced(load_themes()[0][name])
    colours = {key: painted(colour) for key, colour in palette.colours.items()}
    variables = {key: painted(value) for key, value in palette.variables().items() if value.startswith("#")}
    page = colours["background"]
    for key in ("foreground", "primary", "accent", "success", "warning", "error"):
        for behind in ("background", "surface", "panel"):
            assert contrast(colours[key], colours[behind]) >= (7 if name == "contrast" else READABLE), (key, behind)
    # Blends are moved no further than the nearest colour.
    assert contrast(variables["quiet"], colours["panel"]) >= 4.3
    assert contrast(variables["faint"], page) >= VISIBLE * 0.95
    for i in range(SHADES):
        assert contrast(variables[f"run-{i}"], variables[f"run-{i}-tint"]) >= 4.4
        assert variables[f"run-{i}-tint"] != page, "a run has a background of its own"
        assert distance(variables[f"run-{i}"], variables[f"run-{(i + 1) % SHADES}"]) >= APART
    for ink in (f"heat-{step}{half}" for step in STEPS for half in ("", "-half")):
        assert contrast(variables[ink], variables[f"{ink}-tint"]) >= 4.4
        assert variables[f"{ink}-tint"] != page, "a run has a background of its own"
    assert all(distance(variables[f"heat-{step}"], variables[f"heat-{step}-half"]) >= APART for step in STEPS)
    strength = [distance(variables[f"heat-{step}-tint"], page) for step in STEPS]
    assert all(more > less for less, more in pairwise(strength))
    assert len({colours["background"], colours["surface"], colours["panel"]}) == 3
    assert (palette.dark, palette.summary) == (load_themes()[0][name].dark, load_themes()[0][name].summary)


def test_what_is_written_is_what_is_seen() -> None:
    for colour in ("#101218", "#fbf9f4", "#84bdfb", "#808080", "#000000", "#ffffff", "#f0b27a", "#0a0a0a", "#ececec"):
        written = nearest(colour)
        assert shown(written) == painted(written)
        assert distance(painted(written), colour) < 15
    assert nearest("#ffffff", other=("#ffffff",)) != "#ffffff"
    assert contrast(shown(nearest("#888888", on=("#000000",), least=12)), "#000000") >= 12
    assert distance(nearest("#ff0000", apart=("#ff0000",)), "#ff0000") >= APART
    assert nearest("#ff0000", on=("#000000",), least=22) == "#ff0000", "what cannot be had does not spoil the rest"


@pytest.mark.parametrize(("term", "few"), [("screen-256color", True), ("xterm-256color", True), ("xterm-direct", False)])
async def test_the_chat_wears_them_where_the_terminal_has_no_more(
    make_chat: Any, monkeypatch: pytest.MonkeyPatch, term: str, few: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    if few:
        monkeypatch.delenv("COLORTERM")
    app = make_chat(theme="fjord")
    true = app.themes.palettes["fjord"].colours["background"]
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.theme_variables["background"].lower() == (nearest(true) if few else true)
        await pilot.press("f3", "down")
        await pilot.pause()
        name = app.theme
        assert name != "fjord"
        variables = app.theme_variables
        assert variables["run-0-tint"] == (reduced(app.themes.palettes[name]) if few else app.themes.palettes[name]).behind(0)
        await pilot.press("escape")
        assert app.theme_variables["background"].lower() == (nearest(true) if few else true)
    # What leaves the terminal has every colour.
    assert app.themes.palettes["fjord"].colours["background"] == true


def ansi(colour: str) -> int:
    """The number of one of the 16 colours, as it is written."""
    number = Color.parse(colour).downgrade(ColorSystem.STANDARD).number
    assert number is not None
    return number


@pytest.mark.parametrize("name", NAMES)
def test_themes_stay_readable_in_16_colours(name: str) -> None:
    palette = sixteen(load_themes()[0][name])
    variables = {key: value for key, value in palette.variables().items() if value.startswith("#")} | dict(palette.colours)
    assert len({ansi(value) for value in variables.values()}) == len(set(variables.values())), "each is one of the 16"
    page = palette.colours["background"]
    for key in ("foreground", "primary", "accent", "success", "warning", "error", "quiet"):
        assert contrast(variables[key], page) >= READABLE, key
    assert variables["block-cursor-background"] != page != variables["line"]
    assert len({tuple(map(ansi, palette.tone(step))) for step in STEPS}) == len(STEPS)
    plain = (ansi(variables["plain"]), ansi(page))
    ways: tuple[Colouring, ...] = ("length",)
    for way in ways:
        looks = {ink: INKS[ink].of(variables) for ink in inks_of(way) if not ink.startswith("plain")}
        marks = {ink: (ansi(look.colour), ansi(look.behind)) for ink, look in looks.items()}
        assert plain not in marks.values(), "every run has a mark"
        assert all(contrast(look.colour, look.behind) >= READABLE for look in looks.values())
        for tokens in (2, 3, 4, 6, 8):
            for shade in range(SHADES):
                assert marks[ink_name(way, shade, tokens)] != marks[ink_name(way, (shade + 1) % SHADES, tokens)]
        # The Linux console has the first eight colours alone behind text; the page itself may be one of the others.
        assert all(behind < 8 for _, behind in marks.values() if behind != plain[1])
