"""What goes with a message, gathered before it is sent: PDF files and folders in a thread, so that the screen goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING

from ....errors import UserError
from ...attach.attachments import Attachment, attach, compose, slow

if TYPE_CHECKING:
    from ..chat.screen import ChatScreen

SLOW_SECONDS = 0.7
"""What takes longer says so."""

Then = Callable[[str, str], None]
"""Told the draft, and what is sent for it."""


class Gathering:
    """Gathers the files of a message."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._given_up: Event | None = None

    def gather(self, draft: str, then: Then) -> None:
        """Gather what a draft names. What cannot go with it is told, and the draft stays.

        Args:
            draft: the message as typed.
            then: told at once where nothing takes time, else later.
        """
        message, pastes = self._screen.attaching.unfolded(draft)
        if self._given_up is not None:
            self._screen.chat.tell("The files of a message are being read: wait for them, or give up with esc.", "warning")
        elif slow(message):
            self._given_up = Event()
            self._screen.run_worker(self._beside(draft, message, pastes, self._given_up, then), group="gathering")
        else:
            try:
                self._done(draft, *attach(message), pastes, then)
            except UserError as error:
                self._refused(error)

    def give_up(self) -> bool:
        """Read no further; False if nothing is being read."""
        if self._given_up is None:
            return False
        self._given_up.set()
        return True

    async def _beside(self, draft: str, message: str, pastes: list[Attachment], given_up: Event, then: Then) -> None:
        timer = self._screen.set_timer(SLOW_SECONDS, lambda: self._screen.chat.tell("Reading the files … esc gives up."))
        try:
            found = await asyncio.to_thread(attach, message, None, given_up.is_set)
        except UserError as error:
            self._refused(error)
            return
        finally:
            timer.stop()
            self._given_up = None
            given_up.set()  # where the chat is left, the thread ends too
        self._done(draft, *found, pastes, then)

    def _done(self, draft: str, message: str, files: list[Attachment], pastes: list[Attachment], then: Then) -> None:
        for file in files:
            if file.notice:
                self._screen.chat.tell(file.notice, "warning")
        then(draft, compose(message, [*files, *pastes]))

    def _refused(self, error: UserError) -> None:
        self._screen.chat.tell(f"Not sent, your draft stays here: {error}", "warning")
