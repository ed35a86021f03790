"""A word to who looks elsewhere: an answer, a race or a download has ended while the terminal was not in front.

Only terminals that tell when they lose the focus are ever told anything, and each only in the way that it is known to have.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from textual.app import App

from ...errors import counted
from ..chat.dialogue import Dialogue
from ..terminal.notify import sequence, way_here

LONG_SECONDS = 5.0
"""What ended sooner was hardly left alone for long."""


class Notifier:
    """Notifies of the end of an answer, a race or a download, if nobody looks."""

    def __init__(self, dialogue: Dialogue, racing: Callable[[], bool], say: Callable[[str], None]) -> None:
        self._dialogue, self._racing, self._say = dialogue, racing, say
        self._since: dict[str, float] = {}  # what is under way → when it began

    def look(self) -> None:
        """Compare what is under way with what was at the last look."""
        dialogue = self._dialogue
        loading = dialogue.loading
        self._note("answer", dialogue.phase in ("prefill", "writing", "stopping") and not dialogue.paused, self._answer)
        self._note("race", self._racing(), lambda: "The race has ended.")
        if loading is not None and loading.stage.endswith("download"):
            self._since.setdefault("download", monotonic())
        elif dialogue.phase != "loading":
            self._note("download", False, self._download)

    def _note(self, what: str, going: bool, told: Callable[[], str]) -> None:
        if going:
            self._since.setdefault(what, monotonic())
        elif (since := self._since.pop(what, None)) is not None:
            text = told() if monotonic() - since >= LONG_SECONDS else ""
            if text:
                self._say(text)

    def _answer(self) -> str:
        """Empty if the answer was stopped by hand, or only held."""
        dialogue = self._dialogue
        answer = next(iter(reversed(dialogue.transcript.answers())), None)
        if dialogue.paused or answer is None or answer.reason in (None, "cancelled"):
            return ""
        figures = answer.figures
        return f"The answer has ended ({answer.ending}): {counted(figures.tokens, 'token')}."

    def _download(self) -> str:
        dialogue = self._dialogue
        if dialogue.phase == "ready":
            return f"{dialogue.info.get('name') or dialogue.model} is downloaded and loaded."
        return f"{dialogue.model} could not be downloaded."


def notify(app: App[Any], way: str, text: str) -> None:
    """Notify, unless the terminal is in front."""
    driver = app._driver
    if not app.app_focus and driver is not None and (data := sequence(way_here(way), text)):
        driver.write(data)
        driver.flush()
