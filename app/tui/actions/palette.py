"""What the palette offers besides what `Commands` lists: every key and every slash command, from their own tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ....errors import UserError
from ...settings.keymap import CHAT, spell
from .table import COMMANDS, SlashCommand

if TYPE_CHECKING:
    from ..app import SpecchatApp

LISTED = (
    "inspect",
    "race",
    "pause",
    "step",
    "markdown",
    "copy_answer",
    "export",
    "chats",
    "new_chat",
    "help",
    "palette",
    "quit",
)
"""Keys that have an entry of their own in `Commands.entries`, and the palette's."""


def unmarked(text: str) -> str:
    """A text for Textual's palette, which takes square brackets for markup."""
    return text.translate({ord("["): "(", ord("]"): ")"})


def more_entries(chat: SpecchatApp) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Title, help, what to call: for every other key, and for every command."""
    for key in CHAT:
        if key.id not in LISTED:
            keys = spell(chat.settings.keymap.get(key.id, key.keys))
            yield key.what, f"Key: {keys}", partial(chat.run_action, key.action, chat.chat_screen)
    for command in COMMANDS:
        title = f"/{command.name} {command.arguments}".strip()
        what = command.what[:1].upper() + command.what[1:]
        yield title, what, partial(_run, chat, command)


def _run(chat: SpecchatApp, command: SlashCommand) -> None:
    """Run a command; one that may have arguments is put into the input box, where they are completed."""
    box = chat.chat_screen.input
    if command.arguments:
        box.bring(f"/{command.name} ")
        box.focus()
        return
    try:
        chat.commands.run(f"/{command.name}")
    except UserError as error:
        chat.tell(str(error), "warning")
