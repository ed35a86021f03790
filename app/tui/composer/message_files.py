"""What goes with a message, gathered before it is sent: PDF files and folders in a thread, so that the screen goes on."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from ....errors import UserError
from ...attach.attachments import Attachment, attach, compose, refuse_images, slow
from ..host import Host

Gathered = tuple[str, list[Attachment]]
"""A message as it goes out, and its files."""


class MessageFiles:
    """Reads the files that a message names, before it is sent."""

    def __init__(self, host: Host, unfolded: Callable[[str], Gathered]) -> None:
        self._host, self._unfolded = host, unfolded
        self._given_up: Event | None = None

    def gather(self, draft: str, then: Callable[[str, str], None]) -> None:
        """Gather what a draft names. What cannot go with it is told, and the draft stays.

        Args:
            draft: the message as typed.
            then: told the draft and what is sent for it: at once where nothing takes time, else later.
        """
        message, pastes = self._unfolded(draft)
        if self._given_up is not None:
            self._host.tell("The files of a message are being read. Wait for them, or press esc to stop.", "warning")
            return

        def done(found: Gathered | UserError) -> None:
            self._given_up = None
            try:
                if isinstance(found, UserError):
                    raise found
                text, files = found
                refuse_images((*files, *pastes), self._host.dialogue.blind)
            except UserError as error:
                self._host.tell(f"Not sent; your message stays in the input box. {error}", "warning")
                return
            for file in files:
                if file.notice:
                    self._host.tell(file.notice, "warning")
            then(draft, compose(text, [*files, *pastes]))

        if slow(message):
            given_up = self._given_up = Event()
            self._host.beside(lambda: attached(message, given_up.is_set), done, "Reading the files … esc stops.")
        else:
            done(attached(message))

    def give_up(self) -> bool:
        """Read no further; False if nothing is being read."""
        if self._given_up is None:
            return False
        self._given_up.set()
        return True


def attached(message: str, given_up: Callable[[], bool] | None = None) -> Gathered | UserError:
    """A message and the files it names, or why one cannot go with it."""
    try:
        return attach(message, None, given_up)
    except UserError as error:
        return error
