"""Actions of the table, run by keys, slash commands and the help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TypeVar

from ....errors import UserError
from ...settings.actions import BY_ID, Action
from ..host import Host
from .table import parse

Registered = TypeVar("Registered", bound=Callable[..., object])


def runs(row: Action, *arguments: int) -> Callable[[Registered], Registered]:
    """Register a method for an action; a slash command passes its words. Where the action is impossible the method raises a
    UserError and changes nothing.

    Args:
        row: the action.
        arguments: passed to the method, where several actions share it.
    """

    def register(method: Registered) -> Registered:
        method.__dict__.setdefault("runs", []).append((row.id, arguments))
        return method

    return register


class Actions:
    """The registered methods of the app's parts, by action.

    Args:
        host: shows refusals.
        parts: returns the objects with registered methods; called once, after all of them exist.
    """

    def __init__(self, host: Host, parts: Callable[[], Iterable[object]]) -> None:
        self.host = host
        self._parts = parts
        self.running = ""
        """Text of the slash command in progress; empty during a key's action."""

    @cached_property
    def methods(self) -> dict[str, Callable[..., object]]:
        """Action id → its method, with the arguments of the registration."""
        return {
            id: partial(method, part, *arguments)
            for part in self._parts()
            for method in vars(type(part)).values()
            for id, arguments in getattr(method, "runs", ())
        }

    def run(self, row: Action, *words: str) -> None:
        self.methods[row.id](*(words if row.arguments else ()))

    def do(self, id: str, *words: str) -> None:
        """Run an action for a key or the help; a refusal becomes a notice."""
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
        """Put a command into the input box, where its arguments are completed."""
        self.host.box.bring(f"/{row.command} ")
        self.host.box.focus()
