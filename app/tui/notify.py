"""A word to who looks elsewhere: an answer, a race or a download has ended while the terminal was not in front.

Only terminals that tell when they lose the focus are ever told anything, and each only in the way that it is known to have.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any

from textual.app import App

from ...errors import counted
from ..chat.dialogue import Dialogue
from ..text.cells import fit, one_line

LONG_SECONDS = 5.0
"""What ended sooner was hardly left alone for long."""

OSC9 = ("iTerm.app", "WezTerm", "ghostty", "rio")
"""TERM_PROGRAM of terminals that show OSC 9 as a notification."""

LONGEST = 120
"""Characters of a notification."""


class Notifier:
    """Notifies of the end of an answer, a race or a download, if nobody looks."""

    def __init__(self, dialogue: Dialogue, racing: Callable[[], bool], say: Callable[[str], None]) -> None:
        self._dialogue, self._racing, self._say = dialogue, racing, say
        self._since: dict[str, float] = {}  # what is under way → when it began

    def look(self) -> None:
        """Compare what is under way with what was at the last look."""
        dialogue = self._dialogue
        loading = dialogue.loading
        downloads = loading is not None and loading.stage.endswith("download")
        going = {
            "answer": dialogue.phase in ("prefill", "writing", "stopping") and not dialogue.paused,
            "race": self._racing(),
            "download": downloads or ("download" in self._since and dialogue.phase == "loading"),
        }
        for what, under_way in going.items():
            if under_way:
                self._since.setdefault(what, monotonic())
            elif monotonic() - self._since.pop(what, inf) >= LONG_SECONDS and (text := self._told(what)):
                self._say(text)

    def _told(self, what: str) -> str:
        """What to say of what has ended; nothing of an answer that was stopped by hand, or is only held."""
        dialogue = self._dialogue
        match what:
            case "race":
                return "The race has ended."
            case "download" if dialogue.phase == "ready":
                return f"{dialogue.info.get('name') or dialogue.model} is downloaded and loaded."
            case "download":
                return f"{dialogue.model} could not be downloaded."
        answer = next(iter(reversed(dialogue.transcript.answers())), None)
        if dialogue.paused or answer is None or answer.reason in (None, "cancelled"):
            return ""
        return f"The answer has ended ({answer.ending}): {counted(answer.figures.tokens, 'token')}."


def sequence(text: str) -> str:
    """What makes this terminal notify: OSC 9 where it is known to show that, else the bell, which tmux and screen pass on."""
    term, program = os.environ.get("TERM", ""), os.environ.get("TERM_PROGRAM", "")
    known = program in OSC9 or os.environ.get("KITTY_WINDOW_ID") or term in ("xterm-kitty", "xterm-ghostty", "wezterm")
    if not known or os.environ.get("TMUX") or os.environ.get("STY"):
        return "\a"
    return f"\x1b]9;specchat: {fit(one_line(text), LONGEST)}\x1b\\"  # never begins with a digit: 9;4 is a progress bar


def notify(app: App[Any], text: str) -> None:
    """Notify, unless the terminal is in front."""
    driver = app._driver
    if not app.app_focus and driver is not None:
        driver.write(sequence(text))
        driver.flush()
