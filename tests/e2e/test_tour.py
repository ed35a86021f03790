"""The tour on the built-in model, in a real terminal."""

from __future__ import annotations

import re

import pytest

from ..cases import FULL
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="it takes its 30 seconds; tests/app/tui/test_tour.py has a quick one")
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
