"""Desktop notifications about the end of an answer, a race or a download while the terminal is in the background.

A terminal has to report the loss of its focus, and gets the notification by the means that it is known to have.
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
from .textual_compat import driver_of

LONG_SECONDS = 5.0
"""Least duration of work whose end is notified."""

OSC9 = ("iTerm.app", "WezTerm", "ghostty", "rio")
"""TERM_PROGRAM of terminals that show OSC 9 as a notification."""

LONGEST = 120
"""Most cells of a notification."""


class Notifier:
    """Notifies of the end of long answers, races and downloads."""

    def __init__(self, dialogue: Dialogue, racing: Callable[[], bool], alert: Callable[[str], None]) -> None:
        self._dialogue = dialogue
        self._racing = racing
        self._alert = alert
        self._since: dict[str, float] = {}  # work in progress → its start

    def update(self) -> None:
        """Notify of work that has ended since the last call."""
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
            elif monotonic() - self._since.pop(what, inf) >= LONG_SECONDS and (text := self._describe(what)):
                self._alert(text)

    def _describe(self, what: str) -> str:
        """Describe the work that ended; empty for an answer that is paused or was stopped by hand."""
        dialogue = self._dialogue
        match what:
            case "race":
                return "The race has ended."
            case "download" if dialogue.phase == "ready":
                return f"{dialogue.info.name or dialogue.model} is downloaded and loaded."
            case "download":
                return f"{dialogue.model} could not be downloaded."
        answer = next(iter(reversed(dialogue.transcript.answers())), None)
        if dialogue.paused or answer is None or answer.reason in (None, "cancelled"):
            return ""
        return f"The answer has ended ({answer.ending}): {counted(answer.figures.tokens, 'token')}."


def sequence(text: str) -> str:
    """Encode a notification: OSC 9 for terminals known to show it, else the bell, which tmux and screen pass on."""
    term, program = os.environ.get("TERM", ""), os.environ.get("TERM_PROGRAM", "")
    osc9 = program in OSC9 or os.environ.get("KITTY_WINDOW_ID") or term in ("xterm-kitty", "xterm-ghostty", "wezterm")
    if not osc9 or os.environ.get("TMUX") or os.environ.get("STY"):
        return "\a"
    return f"\x1b]9;specchat: {fit(one_line(text), LONGEST)}\x1b\\"  # never begins with a digit: 9;4 is a progress bar


def notify(app: App[Any], text: str) -> None:
    """Notify, unless the terminal has the focus."""
    driver = driver_of(app)
    if not app.app_focus and driver is not None:
        driver.write(sequence(text))
        driver.flush()
