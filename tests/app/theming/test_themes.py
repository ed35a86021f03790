"""Themes: readable colours in those that ship, clear errors for those of users."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich._palettes import EIGHT_BIT_PALETTE, STANDARD_PALETTE
from rich.color import Color, ColorSystem
from rich.palette import Palette as Colours
from rich.style import Style

from specchat.app.chat.entries import Answer
from specchat.app.chat.runs import SHADES, Pieces
from specchat.app.render.tree_page import tree_lines
from specchat.app.theming.colouring import COLOURINGS, INKS, effective, ink_name, legend, run_inks, split_blanks
from specchat.app.theming.themes import COLOURS, FEWER, FORMS, LISTS, SHIPPED, STEPS, TONES, Palette, load_themes, read_theme
from specchat.errors import UserError

from ...fakes.colours import SIGHTS, contrast, distance, simulate
from ...fakes.pilots import Make, ask, chatting

FILES = sorted(SHIPPED.glob("*.toml"))
SAFE = ("safe-dark", "safe-light")

READABLE = 4.5
"""Least contrast of text: WCAG 2, level AA."""

VISIBLE = 3.0
"""Least contrast of what need not be read: placeholders, what cannot be chosen."""

STRONG = 7.0
"""WCAG 2, level AAA, for text: what the high-contrast theme keeps."""

APART = 12.0
"""Least distance of colours that are told apart."""

each_theme = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
each_full_theme = pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem not in sum(FEWER.values(), ())], ids=lambda path: path.stem
)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a theme of the user's own."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_there_are_themes_for_every_eye_and_every_terminal() -> None:
    themes, wrong = load_themes()
    assert not wrong
    assert {"dark", "light", "contrast", *SAFE, *sum(FEWER.values(), ())} <= set(themes)
    assert len(themes) <= 10
    assert list(themes)[:2] == ["dark", "light"]
    assert {palette.dark for palette in themes.values()} == {True, False}


@each_theme
def test_a_shipped_theme_fits_the_menu_and_says_truly_whether_it_is_dark(path: Path) -> None:
    palette = read_theme(path)
    assert 10 < len(palette.summary) <= 34, "one line of the menu"
    assert len(path.stem) <= 12
    page = palette.colours["background"]
    assert (contrast("#ffffff", page) > contrast("#000000", page)) == palette.dark


def painted(palette: Palette, system: ColorSystem, colours: Colours) -> Palette:
    """A theme as a terminal with fewer colours shows it."""

    def one(colour: str) -> str:
        number = Color.parse(colour).downgrade(system).number
        assert number is not None
        return colours[number].hex

    return Palette(
        palette.name,
        palette.summary,
        palette.dark,
        {key: one(colour) for key, colour in palette.colours.items()},
        {key: one(colour) for key, colour in palette.tones.items()},
        {key: tuple(map(one, list_colours)) for key, list_colours in palette.lists.items()},
    )


@each_theme
def test_text_is_readable(path: Path) -> None:
    palette = read_theme(path)
    tolerance = 1.0
    if path.stem in FEWER["256"]:
        palette = painted(palette, ColorSystem.EIGHT_BIT, EIGHT_BIT_PALETTE)
        tolerance = 0.95  # colours are moved to the nearest of the palette
    colours, tones, page = palette.colours, palette.tones, palette.colours["background"]
    least = STRONG if path.stem == "contrast" else READABLE
    for name in ("foreground", "primary", "accent", "success", "warning", "error"):
        for behind in ("background", "surface", "panel"):
            assert contrast(colours[name], colours[behind]) >= least, (name, behind)
            assert contrast(tones["quiet"], colours[behind]) >= least * tolerance, behind
    for behind in (page, colours["surface"]):
        assert contrast(colours["secondary"], behind) >= least
        assert contrast(tones["faint"], behind) >= VISIBLE * tolerance
    for text in (colours["foreground"], tones["quiet"]):
        assert contrast(text, tones["cursor"]) >= READABLE * tolerance, "the line that a menu's cursor is on"
    for step in STEPS:
        text, behind = palette.tone(step)
        assert contrast(text, behind) >= least * tolerance, step
        assert contrast(palette.lists["dim"][step - 1], behind) >= min(READABLE, least) * tolerance, "in a thought"


@each_full_theme
def test_runs_are_readable_on_the_page_and_where_they_are_selected(path: Path) -> None:
    palette = read_theme(path)
    for text in (*palette.lists["heat"], palette.colours["foreground"]):
        assert contrast(text, palette.colours["background"]) >= READABLE
        assert contrast(text, palette.tones["selection"]) >= VISIBLE


@pytest.mark.parametrize("name", SAFE)
def test_labels_can_be_told_apart_by_every_eye(name: str) -> None:
    palette = load_themes()[0][name]
    for sight in SIGHTS:
        labels = [simulate(palette.colours[key], sight) for key in ("success", "warning", "error")]
        assert min(distance(a, b) for i, a in enumerate(labels) for b in labels[:i]) >= APART, sight


@each_full_theme
def test_bars_are_seen_and_plain_ones_differ(path: Path) -> None:
    palette = read_theme(path)
    panel = palette.colours["panel"]
    plain, *bars = palette.lists["bars"]
    assert all(contrast(bar, panel) >= 1.5 for bar in (plain, *bars))
    assert all(contrast(more, panel) > contrast(less, panel) for less, more in pairwise(bars))
    assert all(distance(plain, bar) >= 10 for bar in bars)


@each_full_theme
def test_the_tint_grows_with_every_step_for_every_eye(path: Path) -> None:
    palette = read_theme(path)
    page = palette.colours["background"]
    for sight in (None, *SIGHTS):

        def apart(one: str, other: str, sight: str | None = sight) -> float:
            return distance(simulate(one, sight), simulate(other, sight)) if sight else distance(one, other)

        tints = palette.lists["tint"]
        # A distance of 2 is just noticeable.
        assert apart(tints[0], page) >= 5, sight
        assert all(apart(more, page) >= apart(less, page) + 2.5 for less, more in pairwise(tints)), sight


def test_sixteen_colours_are_those_of_the_terminal() -> None:
    palette = load_themes()[0][FEWER["standard"][0]]
    assert painted(palette, ColorSystem.STANDARD, STANDARD_PALETTE).colours.keys() == palette.colours.keys()

    def ansi(colour: str) -> int:
        number = Color.parse(colour).downgrade(ColorSystem.STANDARD).number
        assert number is not None
        return number

    every = {
        *palette.colours.values(),
        *palette.tones.values(),
        *(colour for list_colours in palette.lists.values() for colour in list_colours),
    }
    assert len(set(map(ansi, every))) == len(every), "each is one of the 16"
    marks = [tuple(map(ansi, palette.tone(step))) for step in STEPS]
    assert len(set(marks)) == len(marks)
    assert (ansi(palette.colours["foreground"]), ansi(palette.colours["background"])) not in marks, "every run has a mark"
    assert all(behind < 8 for _, behind in marks), "the Linux console has only 8 background colours"


@pytest.mark.parametrize(("term", "shown_theme"), [("screen-256color", "dark-256"), ("linux", "sixteen")])
async def test_a_theme_for_fewer_colours(make_chat: Any, monkeypatch: pytest.MonkeyPatch, term: str, shown_theme: str) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("COLORTERM")
    app = make_chat(theme="ember")
    page = load_themes()[0][shown_theme].colours["background"]
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.theme_variables["background"].lower() == page
        await pilot.press("f3", "down")
        assert app.theme != "ember"
        await pilot.press("escape")
        assert (app.theme, app.theme_variables["background"].lower()) == ("ember", page)
    # Exports use the chosen theme, with all its colours.
    assert app.themes.palette == load_themes()[0]["ember"]


def test_a_broken_theme_spoils_no_other(tmp_path: Path, write: Any) -> None:
    good = (SHIPPED / "dark.toml").read_text()
    write("mine", good.replace("#8fb8f6", "#ABCDEF"))
    write("light", good)
    write("broken", "name = ")
    write("short", good.replace('accent = "#f0b27a"', ""))
    themes, wrong = load_themes(tmp_path)
    assert themes["mine"].colours["primary"] == "#abcdef"
    assert themes["light"].dark, "one of the user's own may have a shipped name"
    assert set(themes) == {path.stem for path in FILES} | {"mine"}
    assert (list(themes)[:2], list(themes)[-1]) == (["dark", "light"], "mine")
    assert len(wrong) == 2
    assert any("broken.toml is not TOML" in sentence for sentence in wrong)
    assert any("short.toml" in s and 'needs accent = "#rrggbb"' in s for s in wrong)
    assert all(sentence.endswith((".", "?")) and "\n" not in sentence for sentence in wrong)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('dark = "yes"', "needs dark = true or false."),
        ('heat = ["#aaaaaa", "#bbbbbb"]', 'needs heat = ["#rrggbb", …] with 5 colours.'),
        ('tint = ["red", "#bbbbbb", "#bbbbbb", "#bbbbbb", "#bbbbbb"]', 'needs tint = ["#rrggbb", …] with 5 colours.'),
        ("bars = 3", 'needs bars = ["#rrggbb", …] with 6 colours.'),
        ('accent = "orange"', 'needs accent = "#rrggbb".'),
        ("summary = 3", 'needs summary = "a few words".'),
        ('primery = "#ffffff"', "has 'primery', which is not part of a theme: did you mean primary?"),
        ('[colors]\nprimary = "#ffffff"', "has 'colors', which is not part of a theme"),
    ],
)
def test_what_a_theme_needs(write: Any, line: str, sentence: str) -> None:
    lines = [text for text in (SHIPPED / "dark.toml").read_text().splitlines() if not text.startswith(line.split("=")[0])]
    path = write("mine", "\n".join([*lines, line]))
    with pytest.raises(UserError, match=f"^The theme {re.escape(f'{path} {sentence}')}"):
        read_theme(path)


def test_what_is_missing_is_named(write: Any) -> None:
    lines = (SHIPPED / "light.toml").read_text().splitlines()
    for missing in (*COLOURS, *TONES, *LISTS, "dark"):
        path = write("mine", "\n".join(line for line in lines if not line.startswith(f"{missing} =")))
        with pytest.raises(UserError, match=f"needs {missing} = "):
            read_theme(path)


def test_the_documentation_names_every_theme_and_has_a_complete_example(write: Any) -> None:
    text = (SHIPPED.parent / "docs" / "settings.md").read_text(encoding="utf-8").split("## Themes\n")[1]
    assert all(f"`{path.stem}`" in text for path in FILES)
    (whole,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert set(tomllib.loads(whole)) == set(FORMS)
    assert read_theme(write("whole", whole)).colours == load_themes()[0]["dark"].colours


def styles(app: Any) -> list[Style]:
    """Styles of the visible segments of the answer's text, from top to bottom."""
    view = app.chat_screen.view
    found: list[Style] = []
    for y in range(view.size.height):
        place = view.row_at(y)
        if place is None or view.blocks[place[0]].row(place[1]).kind != "answer":
            continue
        found += [segment.style for segment in view.render_line(y) if segment.text.strip() and segment.style is not None]
    return found


def test_neighbours_differ_and_the_colour_tells_the_length() -> None:
    for shade in range(SHADES):
        for colouring in ("length", "underline"):
            assert ink_name(colouring, shade, 3) != ink_name(colouring, (shade + 1) % SHADES, 3)
    lengths = [ink_name("length", 0, tokens) for tokens in (1, 2, 3, 4, 5, 6, 7, 8, 40)]
    assert lengths == ["plain", *(f"heat-{step}" for step in (1, 2, 3, 3, 4, 4, 5, 5))]
    assert {ink_name("length", shade, 1) for shade in (-1, -2)} == {"plain"}, "single tokens are calm"
    assert ink_name("off", 3, 5) == "plain"
    for colouring in COLOURINGS:
        assert set(run_inks(colouring)) <= set(INKS)


def test_the_legend_is_the_scale_in_words() -> None:
    assert "".join(text for text, _ in legend("length")) == " 1  2  3  4–5  6–7  8+  tokens a pass"
    inks = [ink for _, ink in legend("length") if ink]
    assert inks == [ink_name("length", 0, int(text.strip()[0])) for text, ink in legend("length") if ink]
    for colouring in COLOURINGS:
        assert {ink for _, ink in legend(colouring) if ink} <= set(run_inks(colouring))


def test_blanks_around_a_run_are_gaps() -> None:
    assert [split_blanks(text) for text in ("  a b ", "ab", "  ")] == [("  ", "a b", " "), ("", "ab", ""), ("  ", "", "")]


def test_without_colours_runs_are_underlined() -> None:
    assert [effective(colouring, True) for colouring in COLOURINGS] == ["underline", "off"]
    assert [effective(colouring, False) for colouring in COLOURINGS] == list(COLOURINGS)


async def test_the_key_changes_every_row_and_nothing_else(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=(100, 24)) as (app, pilot):
        await ask(pilot, engine, "How does prompt lookup work?", make_steps())
        app.chat_screen.input.put("a draft")
        by_colouring = {}
        for colouring in ("off", "length"):
            await pilot.press("f6")
            assert app.chat_screen.view.colouring == colouring
            by_colouring[colouring] = styles(app)
        assert len({str(drawn_styles) for drawn_styles in by_colouring.values()}) == len(COLOURINGS)
        assert len({str(style.color) for style in by_colouring["length"]}) >= 4
        assert not any(style.underline for style in by_colouring["length"] + by_colouring["off"])
        assert len({str(style.color) for style in by_colouring["off"]}) == 1
        assert app.chat_screen.input.text == "a draft"


@pytest.mark.parametrize("theme", load_themes()[0])
def test_a_step_of_the_scale_has_one_colour_in_legend_text_and_tree(theme: str, tree_steps: Make) -> None:
    variables = load_themes()[0][theme].variables() | dict(load_themes()[0][theme].colours)

    def drawn(name: str) -> tuple[str, str]:
        ink = INKS[name].of(variables)
        return ink.colour, ink.behind

    samples = {name: drawn(name) for text, name in legend("length") if name}
    for tokens in range(1, 12):
        colours = {drawn(ink_name("length", shade, tokens)) for shade in range(SHADES)}
        assert colours == {samples[ink_name("length", 0, tokens)]}, tokens
    answer = Answer("fusion", "identical")
    for step in tree_steps():
        answer.add(step)
    rows = tree_lines(answer, 1, Pieces([]), 60, 40)
    signs = {sign: {style for row in rows for text, style in row if text.strip() == sign} for sign in "●┃"}
    assert all(len(styles) == 1 for styles in signs.values()), signs
