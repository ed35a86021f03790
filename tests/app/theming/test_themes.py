"""Themes: readable colours in those that ship, clear errors for those of users."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.runs import SHADES
from specchat.app.theming.colours import SIGHTS, blend, contrast, distance, seen, with_contrast
from specchat.app.theming.themes import (
    APART,
    COLOURS,
    KEYS,
    READABLE,
    SHIPPED,
    STEPS,
    VISIBLE,
    Palette,
    load_themes,
    read_theme,
)
from specchat.errors import UserError

FILES = sorted(SHIPPED.glob("*.toml"))
SAFE = ("safe-dark", "safe-light")
STRONG = 7.0
"""WCAG 2, level AAA, for text: what the high-contrast theme keeps."""

each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def rounds(palette: Palette) -> list[tuple[str, str]]:
    """Run colours that come one after the other, the last with the first."""
    return [(palette.run(i), palette.run((i + 1) % SHADES)) for i in range(SHADES)]


def closest(palette: Palette, sight: str) -> float:
    """How far apart the most alike neighbours look."""
    return min(distance(seen(one, sight), seen(other, sight)) for one, other in rounds(palette))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a theme of the user's own."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_there_are_themes_for_every_eye() -> None:
    themes, wrong = load_themes()
    assert not wrong
    assert len(themes) >= 10
    assert {"dark", "light", "contrast", *SAFE} <= set(themes)
    assert list(themes)[:2] == ["dark", "light"]
    assert {palette.dark for palette in themes.values()} == {True, False}


@each
def test_a_shipped_theme_gives_everything_and_nothing_else(path: Path) -> None:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(data) == set(KEYS) - {"inherits"}
    assert (len(data["runs"]), len(data["heat"])) == (SHADES, len(STEPS))
    assert 10 < len(data["summary"]) <= 34, "one line of the menu"
    assert len(path.stem) <= 12
    palette = read_theme(path)
    assert (contrast("#ffffff", palette.colours["background"]) > contrast("#000000", palette.colours["background"])) == (
        palette.dark
    )


@each
def test_text_is_readable(path: Path) -> None:
    palette = read_theme(path)
    page = palette.colours["background"]
    variables = palette.variables()
    least = STRONG if path.stem == "contrast" else READABLE
    for i in range(SHADES):
        assert contrast(variables[f"run-{i}"], page) >= least
        assert contrast(variables[f"run-{i}"], variables[f"run-{i}-tint"]) >= least
    for name in (f"heat-{step}{half}" for step in STEPS for half in ("", "-half")):
        assert contrast(variables[name], page) >= least
        assert contrast(variables[name], variables[f"{name}-tint"]) >= least
        assert contrast(variables[name], variables["screen-selection-background"]) >= VISIBLE
    for name in ("foreground", "primary", "accent", "success", "warning", "error"):
        for behind in ("background", "surface", "panel"):
            assert contrast(palette.colours[name], palette.colours[behind]) >= least, (name, behind)
            assert contrast(variables["quiet"], palette.colours[behind]) >= least, behind
    assert contrast(variables["plain"], page) >= least
    assert contrast(variables["plain-alt"], page) >= least
    for behind in (page, palette.colours["surface"]):
        assert contrast(palette.colours["secondary"], behind) >= least
        assert contrast(variables["faint"], behind) >= VISIBLE
    # The line that a menu's cursor is on, and text that is selected.
    assert contrast(palette.colours["foreground"], variables["block-cursor-background"]) >= READABLE
    assert contrast(variables["quiet"], variables["block-cursor-background"]) >= READABLE
    for i in range(SHADES):
        assert contrast(variables[f"run-{i}"], variables["screen-selection-background"]) >= VISIBLE
    assert palette.warning is None


@each
def test_neighbouring_runs_can_be_told_apart(path: Path) -> None:
    palette = read_theme(path)
    assert min(distance(*pair) for pair in rounds(palette)) >= 20
    for sight in SIGHTS:
        assert closest(palette, sight) >= (20 if path.stem in SAFE else APART), sight
    if path.stem in SAFE:
        for sight in SIGHTS:
            # The labels: identical, same distribution, lossy.
            labels = [seen(palette.colours[name], sight) for name in ("success", "warning", "error")]
            assert min(distance(a, b) for i, a in enumerate(labels) for b in labels[:i]) >= APART, sight


@each
def test_bars_are_seen_and_plain_ones_differ(path: Path) -> None:
    palette = read_theme(path)
    bars = [palette.bar(step) for step in (0, *STEPS)]
    assert all(contrast(bar, palette.colours["panel"]) >= 1.5 for bar in bars)
    assert all(
        contrast(more, palette.colours["panel"]) > contrast(less, palette.colours["panel"]) for less, more in pairwise(bars[1:])
    )
    if path.stem != "graphite":
        assert all(distance(bars[0], bar) >= 10 for bar in bars[1:])


@each
def test_the_tint_grows_with_every_step_for_every_eye(path: Path) -> None:
    palette = read_theme(path)
    page = palette.colours["background"]
    for sight in (None, *SIGHTS):

        def apart(one: str, other: str, sight: str | None = sight) -> float:
            return distance(seen(one, sight), seen(other, sight)) if sight else distance(one, other)

        tints = [palette.tone(step)[1] for step in STEPS]
        halves = [palette.tone(step, half=True)[1] for step in STEPS]
        # 2 can just be noticed.
        assert apart(halves[0], page) >= 5, sight
        assert all(apart(half, page) < apart(tint, page) for half, tint in zip(halves, tints, strict=True)), sight
        assert all(apart(half, tint) >= 2.5 for half, tint in zip(halves, tints, strict=True)), sight
        assert all(apart(more, page) >= apart(less, page) + 2.5 for less, more in pairwise(tints)), sight


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert blend("#000000", "#ffffff", 0.5) == "#808080"


@pytest.mark.parametrize("page", ["#101218", "#fbf9f4", "#000000", "#ffffff", "#777777"])
def test_a_colour_is_moved_until_it_has_a_contrast(page: str) -> None:
    for colour in ("#f0b27a", "#2b5fb3", "#777777", "#000000", "#ffffff"):
        for ratio in (3.0, 4.4):
            got = contrast(with_contrast(colour, page, ratio), page)
            assert ratio <= got <= ratio * 1.08, (colour, ratio)
    assert with_contrast("#777777", "#777777", 21) == "#000000"


def test_colour_blind_sight_confuses_what_it_should() -> None:
    assert distance("#c8553d", "#7a7a2e") > 40
    assert distance(seen("#c8553d", "deuteranopia"), seen("#7a7a2e", "deuteranopia")) < 25
    for sight in SIGHTS:
        for grey in ("#000000", "#777777", "#ffffff"):
            assert distance(seen(grey, sight), grey) < 1, "greys stay grey"
    assert distance(seen("#0072b2", "tritanopia"), seen("#009e73", "tritanopia")) < distance("#0072b2", "#009e73") / 2


def test_a_broken_theme_spoils_no_other(tmp_path: Path, write: Any) -> None:
    good = (SHIPPED / "dark.toml").read_text()
    write("mine", good.replace("#8fb8f6", "#ABCDEF"))
    write("broken", "name = ")
    write("short", good.replace('accent = "#f0b27a"', ""))
    write("odd", good.replace('"#f0b27a"', '"orange"'))
    themes, wrong = load_themes(tmp_path)
    assert themes["mine"].colours["primary"] == "#abcdef"
    assert set(themes) == {path.stem for path in FILES} | {"mine"}
    assert list(themes)[-1] == "mine"
    assert len(wrong) == 3
    assert any("broken.toml, line 1, is not TOML" in sentence for sentence in wrong)
    assert any("short.toml" in s and 'needs accent = "#rrggbb"' in s for s in wrong)
    assert any("odd.toml" in s and "not 'orange'" in s for s in wrong)
    assert all(sentence.endswith((".", "?")) and "\n" not in sentence for sentence in wrong)


def test_a_theme_of_ones_own_may_have_a_shipped_name(tmp_path: Path, write: Any) -> None:
    write("dark", 'inherits = "dark"\nbackground = "#000000"')
    themes, wrong = load_themes(tmp_path)
    assert not wrong
    assert themes["dark"].colours["background"] == "#000000"
    assert list(themes)[:2] == ["dark", "light"]


def test_a_theme_inherits_what_it_does_not_give(write: Any) -> None:
    ember = read_theme(SHIPPED / "ember.toml")
    write("parent", 'inherits = "ember"\naccent = "#ffcc00"\nsummary = "Warmer.\\u001b[2J"')
    palette = read_theme(write("child", 'inherits = "parent"\nprimary = "#88ccff"\ntint = 0.3'))
    assert palette.colours == {**ember.colours, "accent": "#ffcc00", "primary": "#88ccff"}
    assert (palette.runs, palette.heat, palette.glow, palette.tint) == (ember.runs, ember.heat, ember.glow, 0.3)
    assert palette.summary == "parent, with colours of its own"
    assert read_theme(write("parent2", 'inherits = "parent"\nsummary = "A \\u001b[2J\\nB"')).summary == "A ␛[2J B"


def test_heat_is_derived_where_a_theme_gives_none(write: Any) -> None:
    for shipped in FILES:
        lines = [line for line in shipped.read_text().splitlines() if not line.startswith(("heat", "glow"))]
        palette = read_theme(write(f"like-{shipped.stem}", "\n".join(lines)))
        page = palette.colours["background"]
        assert all(contrast(*palette.tone(step)) >= READABLE for step in STEPS)
        assert distance(palette.glow, page) >= 15, "it glows"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('runs = ["#ffffff"]', "at least two colours"),
        ("runs = 3", "at least two colours"),
        ('runs = ["#fff", "#000"]', "at least two colours"),
        ("tint = 7", "between 0 and 1"),
        ("tint = true", "between 0 and 1"),
        ('dark = "yes"', "true or false"),
        ('heat = ["#aaaaaa", "#bbbbbb"]', "with 5 colours, from two tokens to many, not 2"),
        ('glow = "red"', "needs glow = \"#rrggbb\", not 'red'"),
        ("summary = 3", "takes a text in quotes"),
        ('primery = "#ffffff"', "has 'primery', which is not part of a theme: did you mean primary?"),
        ('x = "#ffffff"', "has 'x', which is not part of a theme: choose from summary, inherits"),
        ('[colors]\nprimary = "#ffffff"', "has 'colors', which is not part of a theme"),
        ('inherits = "embr"', "inherits from 'embr', which is not a theme: did you mean ember?"),
        ('inherits = "../secret"', "which is not a theme"),
        ("inherits = true", "takes a text in quotes"),
    ],
)
def test_what_a_theme_needs(write: Any, line: str, says: str) -> None:
    key = line.split("=")[0]
    kept = [text for text in (SHIPPED / "dark.toml").read_text().splitlines() if not text.startswith(key)]
    path = write("mine", "\n".join([*kept, line]))
    with pytest.raises(UserError) as caught:
        read_theme(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("missing", [*COLOURS, "runs", "dark"])
def test_what_is_missing_is_named(write: Any, missing: str) -> None:
    kept = [line for line in (SHIPPED / "light.toml").read_text().splitlines() if not line.startswith(f"{missing} =")]
    with pytest.raises(UserError, match=f"needs {missing} = "):
        read_theme(write("mine", "\n".join(kept)))


def documented() -> str:
    """What docs/settings.md says about themes."""
    return (SHIPPED.parent / "docs" / "settings.md").read_text(encoding="utf-8").split("## Themes\n")[1]


def test_the_examples_of_the_documentation_are_good_themes(write: Any) -> None:
    small, whole = re.findall(r"```toml\n(.*?)```", documented(), re.DOTALL)
    assert read_theme(write("small", small)).doubts() == []
    assert set(tomllib.loads(whole)) == set(KEYS) - {"inherits"}
    palette = read_theme(write("whole", whole))
    assert palette.doubts() == []
    assert all(closest(palette, sight) >= APART for sight in SIGHTS)


def test_the_documentation_names_every_theme_and_every_key() -> None:
    text = documented()
    for path in FILES:
        assert f"`{path.stem}`" in text
    for key in KEYS:
        assert re.search(rf"^{key} =", text, re.MULTILINE), key
