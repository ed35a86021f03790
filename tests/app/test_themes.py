"""Themes: readable colours in those that ship, clear errors for those of users."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from specchat.app.themes import SHIPPED, blend, contrast, load_themes, read_theme
from specchat.app.transcript import SHADES
from specchat.backends.base import UserError

FILES = sorted(SHIPPED.glob("*.toml"))
READABLE = 4.5
"""WCAG 2, level AA, for text."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_text_is_readable(path: Path) -> None:
    palette = read_theme(path)
    page = palette.colours["background"]
    for i, colour in enumerate(palette.runs):
        assert contrast(colour, page) >= READABLE
        assert contrast(colour, palette.behind(i)) >= READABLE
    for name in ("foreground", "primary", "accent", "success", "warning", "error"):
        for behind in ("background", "surface", "panel"):
            assert contrast(palette.colours[name], palette.colours[behind]) >= READABLE, (name, behind)
    variables = palette.theme().variables
    for name in ("plain", "plain-alt"):
        assert contrast(variables[name], page) >= READABLE
    for behind in ("background", "surface"):
        assert contrast(variables["quiet"], palette.colours[behind]) >= READABLE
    # Placeholders and what cannot be chosen: 3 : 1, as for inactive parts.
    assert contrast(variables["faint"], page) >= 2.4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_neighbouring_runs_can_be_told_apart(path: Path) -> None:
    palette = read_theme(path)
    assert len(palette.runs) == SHADES

    def channels(colour: str) -> list[int]:
        return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]

    for one, other in pairwise((*palette.runs, palette.runs[0])):
        assert max(abs(a - b) for a, b in zip(channels(one), channels(other), strict=True)) >= 48


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert blend("#000000", "#ffffff", 0.5) == "#808080"


def test_a_broken_theme_spoils_no_other(tmp_path: Path) -> None:
    good = (SHIPPED / "dark.toml").read_text()
    (tmp_path / "mine.toml").write_text(good.replace("#8fb8f6", "#abcdef"))
    (tmp_path / "broken.toml").write_text("name = ")
    (tmp_path / "short.toml").write_text(good.replace('accent = "#f0b27a"', ""))
    (tmp_path / "odd.toml").write_text(good.replace('"#f0b27a"', '"orange"'))
    themes, wrong = load_themes(tmp_path)
    assert themes["mine"].colours["primary"] == "#abcdef"
    assert {"dark", "light", "mine"} == set(themes)
    assert len(wrong) == 3
    assert any("broken.toml is not TOML" in sentence for sentence in wrong)
    assert any("short.toml" in s and 'needs accent = "#rrggbb"' in s for s in wrong)
    assert any("odd.toml" in s and "not 'orange'" in s for s in wrong)


@pytest.mark.parametrize(
    ("line", "says"),
    [('runs = ["#ffffff"]', "at least two colours"), ("tint = 7", "between 0 and 1"), ("runs = 3", "at least two colours")],
)
def test_what_a_theme_needs(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    kept = [text for text in (SHIPPED / "dark.toml").read_text().splitlines() if not text.startswith(line.split("=")[0])]
    path.write_text("\n".join([*kept, line]))
    with pytest.raises(UserError, match=says):
        read_theme(path)
