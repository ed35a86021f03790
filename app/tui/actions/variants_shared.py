"""What editing, retrying and turning share: where a message is, and how what follows it is laid aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...chat.entries import Prompt

if TYPE_CHECKING:
    from ..app import SpecchatApp


def prompts_of(chat: SpecchatApp) -> list[Prompt]:
    """The person's messages on the screen."""
    return [entry for entry in chat.dialogue.transcript.entries if isinstance(entry, Prompt)]


def marked_prompt(chat: SpecchatApp) -> Prompt | None:
    """The message that is marked, or the one whose answer is."""
    marked, entries = chat.chat_screen.view.mark.entry, chat.dialogue.transcript.entries
    at = next((i for i, entry in enumerate(entries) if entry is marked), -1)
    return next((entry for entry in reversed(entries[: at + 1]) if isinstance(entry, Prompt)), None)


def index_of(chat: SpecchatApp, prompt: Prompt) -> int:
    """Where a message is in the transcript."""
    return next(i for i, entry in enumerate(chat.dialogue.transcript.entries) if entry is prompt)


def lay_aside(chat: SpecchatApp, index: int) -> None:
    """Go on anew from before the entry at `index`; what follows becomes a variant."""
    transcript, view = chat.dialogue.transcript, chat.chat_screen.view
    place = transcript.variants.begin(transcript.entries, index)
    transcript.start = transcript.start if transcript.start <= place else 0
    view.mark.clear()
    view.rewind(place)
