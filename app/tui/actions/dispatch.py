"""Actions of the table, run by keys, slash commands and the help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TypeVar

from ....errors import UserError, did_you_mean
from ...race.entry import split_prompt
from ...settings.actions import ACTIONS, BY_ID, Action
from ..host import Host

Registered = TypeVar("Registered", bound=Callable[..., object])

COMMANDS = tuple(row for row in ACTIONS if row.slash)
"""Actions that are slash commands too."""

_NAMES = {row.command: row for row in COMMANDS}

# `/etc/passwd` and `/ hello` are messages, not commands.
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)?(?:\s+(.*))?", re.DOTALL)


def is_command(text: str) -> bool:
    return text.startswith("/") and "\n" not in text.strip() and _COMMAND.fullmatch(text.strip()) is not None


def command_of(name: str) -> Action | None:
    return _NAMES.get(name)


def parse(text: str) -> tuple[Action, list[str]]:
    """Split a line into its command and the words behind it.

    Raises:
        UserError: there is no such command (with the nearest), or a quote is not closed.
    """
    match = _COMMAND.fullmatch(text.strip())
    assert match is not None, "ask is_command first"
    name, rest = match[1] or "", match[2] or ""
    if name not in _NAMES:
        near = did_you_mean(f"/{name}", [f"/{command}" for command in _NAMES], "type / to see them all.")
        raise UserError(f"There is no command /{name}: {near}")
    row = _NAMES[name]
    # A prompt is no list of words: quotes in it are its own.
    if row.takes == "text":
        return row, [rest.strip()] if rest.strip() else []
    rest, colon, prompt = split_prompt(rest) if row.takes == "prompt" else (rest, "", "")
    try:
        return row, [*shlex.split(rest), *((":", prompt.strip()) if colon else ())]
    except ValueError:
        raise UserError(f"A quote is not closed in {text.strip()}. Close it, or leave it out.") from None


def pairs(arguments: Sequence[str], usage: str) -> dict[str, str]:
    """Parse `key=value …`.

    Raises:
        UserError: something is not of that form.
    """
    for argument in arguments:
        if argument.find("=") < 1:
            raise UserError(f"{argument!r} is not of the form key=value: {usage}")
    return dict(argument.split("=", 1) for argument in arguments)


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
        self.methods[row.id](*words)

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
        if words and not row.arguments:
            raise UserError(f"/{row.command} takes no arguments.")
        self.running = text
        try:
            self.run(row, *words)
        finally:
            self.running = ""

    def begin(self, row: Action) -> None:
        """Put a command into the input box, where its arguments are completed."""
        self.host.box.bring(f"/{row.command} ")
        self.host.box.focus()
