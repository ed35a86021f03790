"""Suggestions for the word being typed: files, commands and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TypeVar

from ...attach.attachments import Attachment, with_pastes
from ...attach.names import Suggestion, format_mention, names_below, names_in, offers, open_mention
from ...text.cells import FOLDED
from ..composer.completion import Completion
from ..host import Host
from .complete import KnownNames, TypedCommand, completions, parse_command, quoted

T = TypeVar("T")

FRESH_SECONDS = 10.0
"""Seconds for which a list of files, models or chats is reused."""


class NameSuggestions:
    """Suggests files and arguments for the word being typed.

    Args:
        names: returns the list above the input box.
        files: placeholder in the input box → the file of an edited message.
    """

    def __init__(self, host: Host, names: Callable[[], Completion], files: Mapping[str, Attachment]) -> None:
        self._host = host
        self._names = names
        self._files = files
        self._known = KnownNames(want=self._look_up)
        self._updated: dict[str, float] = {}  # kind of names → time of the look-up
        self._pending: set[str] = set()
        self._closed = -1  # start of the word whose suggestions esc has closed

    @property
    def names(self) -> Completion:
        return self._names()

    def offer(self) -> None:
        start, offers = self._suggest()
        if start == self._closed:
            offers = []
        elif start < 0:
            self._closed = -1
        self.names.offer(offers)
        self._host.box.offering = bool(offers)

    def _suggest(self) -> tuple[int, list[Suggestion]]:
        """Suggest names for the word at the cursor, with its start; −1 if there is no such word."""
        box = self._host.box
        if box.walking:  # up and down go on through the messages
            return -1, []
        command = self._command()
        if command is not None:
            self._known.refresh(self._host)
            return command.start, completions(command, self._known)
        if (path := open_mention(box.before)) is None:
            return -1, []
        return path[0], [Suggestion(name) for name in offers(path[1], self._known.files_for(path[1]))]

    def _command(self) -> TypedCommand | None:
        box = self._host.box
        return parse_command(box.before) if box.document.line_count == 1 else None

    def _look_up(self, kind: str) -> None:
        """Request a kind of names, as `KnownNames.want` says."""
        files, names = self._known.files, self._known.names
        if kind == "files":
            self._run(kind, _list_files, lambda paths: files.update({"": paths}))
        elif kind.startswith("in "):
            folder = kind.removeprefix("in ")
            self._run(kind, lambda: names_in(folder), lambda paths: files.update({folder: paths}))
        elif kind in _LOOK_UPS:
            self._run(kind, _LOOK_UPS[kind], lambda entries: names.update({kind: entries}))

    def _run(self, kind: str, look_up: Callable[[], T], keep: Callable[[T], None]) -> None:
        """Look names up in a thread, as a folder may be large or slow, unless the last look-up is recent."""
        if kind in self._pending or monotonic() - self._updated.get(kind, float("-inf")) <= FRESH_SECONDS:
            return
        self._pending.add(kind)

        def done(names: T) -> None:
            keep(names)
            self._updated[kind] = monotonic()
            self._pending.discard(kind)
            self.offer()

        self._host.in_background(look_up, done)

    def take(self) -> bool:
        """Put the chosen name into the message; False if there is none."""
        names, box = self.names, self._host.box
        row, column = box.cursor_location
        if not (name := names.chosen):
            return False
        if (command := self._command()) is not None:
            text = (quoted(name) if command.name else name) + " " * names.offers[names.at].closes
            box.replace(text, (row, command.start), (row, column))
        elif (path := open_mention(box.before)) is not None:
            box.replace(format_mention(name), (row, path[0]), (row, column))
        else:
            return False
        return True

    def take_chosen(self) -> bool:
        """Take the name that the arrows chose; False if enter is to send."""
        self.offer()  # for the text now: keys may be faster than the messages about them
        return self.names.moved and self.take()

    def close(self) -> bool:
        """Close the list; False if there is none."""
        if not self.names.offers:
            return False
        self._closed = self._suggest()[0]
        self.offer()
        return True

    def unfold(self, draft: str) -> tuple[str, list[Attachment]]:
        """Split a draft into its message and the files and texts folded in it."""
        message, pastes = with_pastes(draft, self._host.box.pastes)
        return message, [self._files.get(f"{FOLDED}{paste.name}]", paste) for paste in pastes]


def _list_files() -> list[str]:
    try:
        return names_below(Path())
    except OSError:  # it is gone
        return []


def _chat_titles() -> Mapping[str, str]:
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


def _model_names() -> Mapping[str, str]:
    from ...models.places import recent, spots

    try:
        return {spot.spec: spot.place for spot in spots(recent()) if not spot.remark and spot.spec.isprintable()}
    except OSError:  # the working folder is gone
        return {}


_LOOK_UPS: Mapping[str, Callable[[], Mapping[str, str]]] = {"chats": _chat_titles, "models": _model_names}
