"""Runs actions by the table: for keys, slash commands and the help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from textual.actions import parse as parse_call

from ....errors import UserError
from ...attach.names import Offer
from ...settings.actions import ACTIONS, Action
from ..host import Host
from .complete import Known, Line, offered
from .table import parse

_ROWS = {row.id: row for row in ACTIONS}


class Actions:
    """Everything that can be done.

    Args:
        host: the app, as it is told what is in the way.
        parts: the app, as it holds the functions that rows name.
    """

    def __init__(self, host: Host, parts: object) -> None:
        self.host, self._parts = host, parts

    def function(self, row: Action) -> Callable[..., Any]:
        """What a row runs."""
        place, name, arguments = parse_call(row.run)
        return partial(attrgetter(f"{place}.{name}" if place else name)(self._parts), *arguments)

    def run(self, row: Action, *words: str) -> None:
        """Run an action.

        Raises:
            UserError: it cannot be done; nothing has changed.
        """
        self.function(row)(*(words if row.arguments else ()))

    def do(self, id: str, *words: str) -> None:
        """Run an action for a key or the help; what is in the way is told."""
        try:
            self.run(_ROWS[id], *words)
        except UserError as error:
            self.host.refuse(error)

    def command(self, text: str) -> None:
        """Run a slash command.

        Raises:
            UserError: there is no such command, or it cannot be done; nothing has changed.
        """
        row, words = parse(text)
        self.run(row, *words)

    def offers(self) -> Iterator[tuple[Action, Offer]]:
        """What may come first behind the commands that the help lists one by one, each with its row."""
        known = Known()
        known.take(self.host)
        for row in ACTIONS:
            for offer in offered(row, Line(row.command, (), "", 0), known) if row.each else ():
                yield row, offer

    def begin(self, row: Action) -> None:
        """Put a command into the input box, where what follows it is completed."""
        self.host.box.bring(f"/{row.command} ")
        self.host.box.focus()
