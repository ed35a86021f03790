"""What goes with a message, gathered before it is sent: PDF files and folders in a thread, so that the screen goes on."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from ....errors import UserError
from ...attach.attachments import Attachment, attach, compose, refuse_images, slow
from ..host import Host

Gathered = tuple[str, list[Attachment]]
"""A message as it goes out, and its files."""

Then = Callable[[str, str], None]
"""Told the draft, and what is sent for it."""


class MessageFiles:
    """Reads the files that a message names, before it is sent."""

    def __init__(self, host: Host, unfolded: Callable[[str], Gathered]) -> None:
        self._host, self._unfolded = host, unfolded
        self._given_up: Event | None = None

    def gather(self, draft: str, then: Then) -> None:
        """Gather what a draft names. What cannot go with it is told, and the draft stays.

        Args:
            draft: the message as typed.
            then: told at once where nothing takes time, else later.
        """
        message, pastes = self._unfolded(draft)
        if self._given_up is not None:
            self._host.tell("The files of a message are being read. Wait for them, or press esc to stop.", "warning")
        elif slow(message):
            self._slowly(draft, message, pastes, then)
        else:
            self._done(draft, attached(message), pastes, then)

    def give_up(self) -> bool:
        """Read no further; False if nothing is being read."""
        if self._given_up is None:
            return False
        self._given_up.set()
        return True

    def _slowly(self, draft: str, message: str, pastes: list[Attachment], then: Then) -> None:
        given_up = self._given_up = Event()

        def done(found: Gathered | UserError) -> None:
            self._given_up = None
            self._done(draft, found, pastes, then)

        self._host.beside(lambda: attached(message, given_up.is_set), done, "Reading the files … esc stops.")

    def _done(self, draft: str, found: Gathered | UserError, pastes: list[Attachment], then: Then) -> None:
        if not isinstance(found, UserError):
            try:
                refuse_images((*found[1], *pastes), self._host.dialogue.blind)
            except UserError as error:
                found = error
        if isinstance(found, UserError):
            self._host.tell(f"Not sent; your message stays in the input box. {found}", "warning")
            return
        message, files = found
        for file in files:
            if file.notice:
                self._host.tell(file.notice, "warning")
        then(draft, compose(message, [*files, *pastes]))


def attached(message: str, given_up: Callable[[], bool] | None = None) -> Gathered | UserError:
    """A message and the files it names, or why one cannot go with it."""
    try:
        return attach(message, None, given_up)
    except UserError as error:
        return error
