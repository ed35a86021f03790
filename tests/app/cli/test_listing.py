"""`specchat themes`: the list, and one theme examined."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from specchat.app.cli import themes
from specchat.app.cli.themes import print_theme, print_themes
from specchat.app.theming.themes import SHIPPED, load_themes
from specchat.errors import UserError


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own themes."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    folder = tmp_path / "themes"
    folder.mkdir()
    return folder


def test_the_list_names_every_theme_and_what_is_wrong(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own / "mine.toml").write_text('inherits = "ember"\nsummary = "Mine.\\u001b[2J"')
    (own / "typo.toml").write_text('inherits = "ember"\nacent = "#ffffff"')
    print_themes()
    out, err = capsys.readouterr()
    for name, palette in load_themes()[0].items():
        assert re.search(rf"^{name} +2 3 4 6 8 ■■■■■■ +{re.escape(palette.summary)}$", out, re.MULTILINE), name
    assert "Mine.␛[2J  (your own)" in out
    assert str(own) in out
    assert "\x1b" not in out, "piped: no colours"
    assert max(map(len, (line for line in out.splitlines() if str(own) not in line))) <= 80
    assert err.count("\n") == 1
    assert "did you mean accent?" in err


@pytest.mark.parametrize("which", ["ember", str(SHIPPED / "ember.toml")])
def test_a_good_theme_passes(which: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_theme(which)
    out = capsys.readouterr().out
    assert out.endswith("All text is readable, and all runs can be told apart.\n")
    for row in (
        "run 6",
        "2 tokens",
        "3 tokens",
        "6–7 tokens",
        r"8\+ tokens",
        "foreground",
        "faint text",
        "usual sight",
        "tritanopia",
    ):
        assert re.search(rf"^{row} +\d", out, re.MULTILINE), row


def test_a_theme_of_ones_own_goes_before_one_that_ships(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own / "ember.toml").write_text('inherits = "ember"\nerror = "#703030"')
    assert not print_theme("ember")
    assert re.search(r"^Error on panel has a contrast of \d\.\d, less than 4\.5\.$", capsys.readouterr().out, re.MULTILINE)


def test_what_colour_blind_eyes_cannot_tell_apart_is_said(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own / "mine.toml").write_text('inherits = "dark"\nruns = ["#e593ba", "#67cdba"]')
    assert print_theme("mine"), "it is fine for usual sight"
    assert "With deuteranopia some neighbouring runs look alike." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("which", "says"),
    [
        ("embr", "There is no theme embr: did you mean ember?"),
        ("qqq", "There is no theme qqq: choose from "),
        ("../dark", "There is no theme ../dark"),
        ("nowhere.toml", "nowhere.toml does not exist"),
    ],
)
def test_what_is_not_there(which: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        print_theme(which)
    assert says in str(caught.value)


def test_samples_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(depth: Any) -> str:
        monkeypatch.setattr(themes, "colour_depth", lambda mode, is_terminal: depth)
        print_theme("contrast")
        return capsys.readouterr().out

    plain = shown(0)
    assert shown(16) == plain
    palette = load_themes()[0]["contrast"]
    red, green, blue = (int(palette.run(0)[i : i + 2], 16) for i in (1, 3, 5))
    full = shown(16_777_216)
    assert f"\x1b[38;2;{red};{green};{blue};48;2;0;0;0m■" in full
    few = shown(256)
    assert "48;5;16m" in few, "black of the cube"
    for coloured in (full, few):
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    codes = [int(code) for code in re.findall(r"[34]8;5;(\d+)", few)]
    assert min(codes) >= 16
    assert max(codes) == 231, "white of the cube"
