"""Runs actions by the table: for keys, slash commands and the palette."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from textual.actions import parse as parse_call

from ....errors import UserError
from ...settings.actions import ACTIONS, Action
from ...settings.keymap import spell
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
        """Run an action for a key or the palette; what is in the way is told."""
        try:
            self.run(_ROWS[id], *words)
        except UserError as error:
            self.host.tell(str(error), "warning")

    def command(self, text: str) -> None:
        """Run a slash command.

        Raises:
            UserError: there is no such command, or it cannot be done; nothing has changed.
        """
        row, words = parse(text)
        self.run(row, *words)

    def palette(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Everything for the palette: title, help, what to call."""
        host, known = self.host, Known()
        known.take(host)
        for row in ACTIONS:
            keys = f"Key: {spell(host.live.keymap.get(row.id, row.keys))}" if row.keys else ""
            how = "   ".join(filter(None, (keys, f"/{row.slash}" if row.slash else "")))
            yield row.what, how, partial(self.do, row.id) if row.keys or not row.arguments else partial(self._begin, row)
            for offer in offered(row, Line(row.command, (), "", 0), known) if row.each else ():
                yield f"{row.each} {offer.name}", offer.what, partial(self.do, row.id, offer.name)

    def _begin(self, row: Action) -> None:
        """Put a command into the input box, where what follows it is completed."""
        self.host.box.bring(f"/{row.command} ")
        self.host.box.focus()


def unmarked(text: str) -> str:
    """A text for Textual's palette, which takes square brackets for markup."""
    return text.translate({ord("["): "(", ord("]"): ")"})
