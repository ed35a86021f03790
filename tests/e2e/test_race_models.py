"""A race of two models, typed in a real terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from specchat.backends.loading import builtin_path

from ..fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (builtin_path() / "config.json").is_file(), reason="the built-in weights are absent"),
]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}


def test_type_a_race_of_two_models_go_on_chatting_and_open_it_from_a_file(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Terminal([SPECCHAT], env=env, columns=120, lines=36) as terminal:
        terminal.wait("ready")
        terminal.send("Who are you?\r")
        terminal.wait(". · ")
        terminal.send(f"/race greedy greedy@builtin-draft greedy@{tmp_path / 'none.gguf'} : What is a token tree?\r")
        terminal.wait(lambda text: "another model" in text and re.search(r" wins(:| in)", text) is not None)
        assert "There is no file" in terminal.text
        assert "builtin-draft" in terminal.text
        terminal.send("e")
        terminal.wait("Export this race as")
        terminal.send("4")
        terminal.wait("Saved as")
        terminal.send("\x1b")
        terminal.wait(lambda text: "another model" not in text and "Who are you?" in text)
        terminal.send("What is prompt lookup?\r")
        terminal.wait(lambda text: text.count(". · ") >= 2)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
    (saved,) = tmp_path.glob("specchat-race-*.json")
    with Terminal([SPECCHAT, "--open", str(saved)], env=env, columns=120, lines=36) as terminal:
        terminal.wait(lambda text: "another model" in text and re.search(r" wins(:| in)", text) is not None)
        assert "What is a token tree?" in terminal.text
        terminal.send("\x1b")
        terminal.wait(lambda text: "another model" not in text)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
