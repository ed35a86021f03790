"""Runs actions by the table: for keys, slash commands and the help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from ....errors import UserError
from ...settings.actions import BY_ID, Action
from ..host import Host
from .registry import methods_of
from .table import parse


class Actions:
    """Runs the actions of the table, and lists what they take.

    Args:
        host: the app, as it is told what is in the way.
        parts: gives the objects whose methods are registered, once all of them are there.
    """

    def __init__(self, host: Host, parts: Callable[[], Iterable[object]]) -> None:
        self.host, self._parts = host, parts
        self.running = ""
        """The slash command that runs, as it was typed; empty while a key's action does."""

    @cached_property
    def methods(self) -> dict[str, Callable[..., object]]:
        return methods_of(self._parts())

    def run(self, row: Action, *words: str) -> None:
        self.methods[row.id](*(words if row.arguments else ()))

    def do(self, id: str, *words: str) -> None:
        """Run an action for a key or the help; what is in the way is told."""
        try:
            self.run(BY_ID[id], *words)
        except UserError as error:
            self.host.refuse(error)

    def command(self, text: str) -> None:
        """Run a slash command.

        Raises:
            UserError: there is no such command, or it cannot be done; nothing has changed.
        """
        row, words = parse(text)
        self.running = text
        try:
            self.run(row, *words)
        finally:
            self.running = ""

    def begin(self, row: Action) -> None:
        """Put a command into the input box, where what follows it is completed."""
        self.host.box.bring(f"/{row.command} ")
        self.host.box.focus()
