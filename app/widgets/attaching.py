"""Files on the chat screen: names offered while one is typed, and the message with all that goes with it."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from ..attachments import attach, compose, with_pastes
from ..completing import elsewhere, names_below, offers, spelled, typed
from .completion import Completion

if TYPE_CHECKING:
    from .chat_screen import ChatScreen

FRESH_SECONDS = 10.0
"""How long a look at the working folder holds."""


class Attaching:
    """What the chat screen does about files."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._found: list[str] = []
        self._looked = float("-inf")
        self._looking = False
        self._closed = -1  # place of the @ whose offers were sent away with esc

    @property
    def names(self) -> Completion:
        """The list above the input box."""
        return self._screen.query_one(Completion)

    def offer(self) -> None:
        """Offer names for what is being typed, or none."""
        found = typed(self._screen.input.before)
        if found is None or found[0] == self._closed:
            if found is None:
                self._closed = -1
            self._show([])
            return
        query = found[1]
        if not elsewhere(query) and monotonic() - self._looked > FRESH_SECONDS:
            self._look()
        self._show(offers(query, self._found))

    def _show(self, names: list[str]) -> None:
        self.names.offer(names)
        self._screen.input.offering = bool(names)

    def _look(self) -> None:
        """Look through the working folder, beside the drawing: it may be large."""
        if self._looking:
            return
        self._looking = True

        def look() -> None:
            try:
                names = names_below(Path())
            except OSError:  # the working folder is gone
                names = []
            self._screen.app.call_from_thread(self._looked_through, names)

        self._screen.run_worker(look, thread=True, group="names")

    def _looked_through(self, names: list[str]) -> None:
        self._found, self._looked, self._looking = names, monotonic(), False
        self.offer()

    def take(self) -> bool:
        """Put the chosen name into the message; False if none is offered."""
        name, box = self.names.chosen, self._screen.input
        found = typed(box.before)
        if not name or found is None:
            return False
        row, column = box.cursor_location
        box.replace(spelled(name), (row, found[0]), (row, column))
        return True

    def entered(self) -> bool:
        """Enter takes a name that the arrows chose; False if it is to send."""
        return self.names.moved and self.take()

    def close(self) -> bool:
        """Take the list away; False if there is none."""
        found = typed(self._screen.input.before)
        if not self.names.names or found is None:
            return False
        self._closed = found[0]
        self._show([])
        return True

    def whole(self, draft: str) -> str:
        """The message as it is sent, with the files and pasted texts that it names.

        Raises:
            UserError: one of them cannot go with it.
        """
        message, pastes = with_pastes(draft, self._screen.input.pastes)
        message, files = attach(message)
        for file in files:
            if file.notice:
                self._screen.chat.tell(file.notice, "warning")
        return compose(message, [*files, *pastes])
