"""The tour on the built-in model, in a real terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ..fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own."""
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}
    return {**home, "SPECCHAT_DATA": str(tmp_path / "d")}


@pytest.mark.slow
def test_enter_on_the_first_start_and_every_step_comes(env: dict[str, str]) -> None:
    with Terminal([SPECCHAT], env=env) as terminal:
        terminal.wait("New here? Press enter for the tour")
        begun = terminal.wait("ready")
        terminal.send("\r")
        terminal.wait(lambda text: re.search(r"\b([3-9]|1\d) tokens, \1 passes", text) is not None)
        assert "1 of 4" in terminal.text
        assert "◆ greedy" in terminal.text
        terminal.wait("2 of 4")
        assert "A small model" in terminal.text, "the same answer goes on"
        terminal.wait(lambda text: "3 of 4" in text and "racing" in text)
        terminal.wait("photo finish")
        ended = terminal.wait("4 of 4") - begun
        print(f"{ended:.1f} s from the key to the last step")
        terminal.wait("Race on")
        assert "› Turn this into a JSON array" in terminal.text
        terminal.send("\r")
        terminal.wait('["lantern", "compass", "telescope", "notebook"]')
        assert "of 4" not in terminal.text
        terminal.send("\x11")
        assert terminal.exit_code() == 0
    with Terminal([SPECCHAT], env=env) as terminal:
        terminal.wait("ready")
        assert "Take the tour" in terminal.text
        assert "New here?" not in terminal.text


@pytest.mark.slow
def test_as_a_command_it_begins_by_itself_and_esc_ends_it(env: dict[str, str]) -> None:
    with Terminal([SPECCHAT, "tour"], env=env, columns=60, lines=18) as terminal:
        terminal.wait("1 of 4")
        terminal.wait(lambda text: re.search(r"\b([3-9]|1\d) tokens, \1 passes", text) is not None)
        terminal.send("\x1b")
        terminal.wait(lambda text: "of 4" not in text and "A small model" in text)
        terminal.send("Hello\r")
        terminal.wait(lambda text: "› Hello" not in text and "Hello" in text)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
