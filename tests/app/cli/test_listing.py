"""`specchat themes`: the list, and one theme examined."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    assert out.endswith("All text is readable, and all passes can be told apart.\n")
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
