"""Names on the chat screen: files and arguments offered while one is typed, and the message with all that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TypeVar

from ...attach.attachments import Attachment, with_pastes
from ...attach.names import Suggestion, format_mention, names_below, names_in, offers, open_mention
from ...terminal.piped import NAME
from ...text.cells import FOLDED
from ..actions.complete import KnownNames, TypedCommand, completions, line, quoted
from ..host import Host
from .box import PromptInput
from .completion import Completion

T = TypeVar("T")

FRESH_SECONDS = 10.0
"""How long a look at the working folder, at the models or at the chats holds."""


class NameSuggestions:
    """Suggests files and arguments for the word that is being typed.

    Args:
        names: the list above the input box.
        folded: what stands in the input box for a file of a message that was put back there → that file.
    """

    def __init__(self, host: Host, names: Callable[[], Completion], folded: Mapping[str, Attachment]) -> None:
        self._host, self._names, self._folded = host, names, folded
        self._known = KnownNames(want=self._look_for)
        self._looked: dict[str, float] = {}  # what was looked for → when
        self._looking: set[str] = set()
        self._closed = -1  # place of the word whose offers were sent away with esc

    @property
    def names(self) -> Completion:
        return self._names()

    def offer(self) -> None:
        start, found = self._found()
        if start == self._closed:
            found = []
        elif start < 0:
            self._closed = -1
        self.names.offer(found)
        self._host.box.offering = bool(found)

    def _found(self) -> tuple[int, list[Suggestion]]:
        """Where the word begins that names are offered for, and the names; −1 if there is none."""
        box = self._host.box
        if box.walking:  # up goes on to the message before, not through names for the end of this one
            return -1, []
        command = self._command()
        if command is not None:
            self._known.take(self._host)
            return command.start, completions(command, self._known)
        found = open_mention(box.before)
        if found is None:
            return -1, []
        return found[0], [Suggestion(name) for name in offers(found[1], self._known.files_for(found[1]))]

    def _command(self) -> TypedCommand | None:
        box = self._host.box
        return line(box.before) if box.document.line_count == 1 else None

    def _look_for(self, what: str) -> None:
        known = self._known
        if what == "files":
            self._look(what, _files, lambda found: known.files.update({"": found}))
        elif what.startswith("in "):
            folder = what.removeprefix("in ")
            self._look(what, lambda: names_in(folder), lambda found: known.files.update({folder: found}))
        elif what in _LOOKS:
            self._look(what, _LOOKS[what], lambda found: known.names.update({what: found}))

    def _look(self, what: str, look: Callable[[], T], keep: Callable[[T], None]) -> None:
        """Look for something beside the drawing, unless that was done just now: it may be large, or on a slow disk."""
        if what in self._looking or monotonic() - self._looked.get(what, float("-inf")) <= FRESH_SECONDS:
            return
        self._looking.add(what)

        def done(found: T) -> None:
            keep(found)
            self._looked[what] = monotonic()
            self._looking.discard(what)
            self.offer()

        self._host.beside(look, done)

    def take(self) -> bool:
        """Put the chosen name into the message; False if none is offered."""
        names, box = self.names, self._host.box
        name, row, column = names.chosen, *box.cursor_location
        if not name:
            return False
        if (command := self._command()) is not None:
            offer = names.offers[names.at]
            text = (quoted(name) if command.name else name) + " " * offer.closes
            box.replace(text, (row, command.start), (row, column))
            return True
        found = open_mention(box.before)
        if found is None:
            return False
        box.replace(format_mention(name), (row, found[0]), (row, column))
        return True

    def entered(self) -> bool:
        """Enter takes a name that the arrows chose; False if it is to send."""
        self.offer()  # for what is in the box now: keys may come faster than the screen is told of each
        return self.names.moved and self.take()

    def close(self) -> bool:
        """Take the list away; False if there is none."""
        if not self.names.offers:
            return False
        self._closed = self._found()[0]
        self.offer()
        return True

    def unfolded(self, draft: str) -> tuple[str, list[Attachment]]:
        """The message, and the long texts that stand folded in its draft."""
        message, pastes = with_pastes(draft, self._host.box.pastes)
        return message, [self._folded.get(f"{FOLDED}{paste.name}]", paste) for paste in pastes]


def _files() -> list[str]:
    try:
        return names_below(Path())
    except OSError:  # it is gone
        return []


def _titles() -> Mapping[str, str]:
    from ....errors import UserError
    from ...history.chats import reading
    from ...history.store import history_file

    if not history_file().exists():
        return {}
    try:
        with reading() as chats:
            return {row.title: row.model for row in chats.newest(limit=50)}
    except UserError:
        return {}


def _models() -> Mapping[str, str]:
    from ...models.places import recent, spots

    try:
        return {spot.spec: spot.place for spot in spots(recent()) if not spot.remark and spot.spec.isprintable()}
    except OSError:  # the working folder is gone
        return {}


_LOOKS: Mapping[str, Callable[[], Mapping[str, str]]] = {"chats": _titles, "models": _models}


def put(box: PromptInput, text: str) -> None:
    """Begin the draft with what was piped in, as one thing: tab shows the text, backspace takes it out."""
    chip = f"{FOLDED}{NAME}]"
    box.pastes[chip] = text
    box.put(f"{chip} {box.text}")
