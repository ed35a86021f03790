"""Key contexts of the chat, by the user's current task."""

from __future__ import annotations

from ...chat.dialogue import Dialogue
from ...chat.entries import Prompt
from ..composer.box import PromptInput
from ..keys import KeyContext, hints
from ..transcript.view import TranscriptView

METHODS = (("next_method", ""), ("method_menu", ""))
LOOK = (("inspect", ""), ("panels", ""), ("colours", ""))
ALWAYS = (("leader", ""), ("help", ""), ("quit", ""))
"""Keys at the end of each context."""


def tour_keys(box: PromptInput) -> KeyContext:
    return KeyContext("The tour", hints(("cancel", "end the tour"), *ALWAYS), box)


def chat_keys(dialogue: Dialogue, box: PromptInput, view: TranscriptView, *, editing: bool, offer: bool) -> KeyContext:
    """Choose the keys that matter for the user's current task."""
    if view.cursor.by_keys:
        return _looking(dialogue, view)
    if box.offering:
        offered = (("history_back history_forward", "choose"), ("complete", "take"), ("cancel", "close"), ("send", "run"))
        return KeyContext("A name or a command", hints(*offered, *ALWAYS), box)
    if box.text.startswith("/"):
        return KeyContext("A command", hints(("send", "run"), ("complete", ""), *ALWAYS), box)
    if dialogue.busy:
        return _answering(dialogue, box)
    if dialogue.queued is not None:
        return KeyContext("A message is waiting", hints(("cancel", "take it back"), *METHODS, *ALWAYS), box)
    if box.text:
        back = [("cancel", "stop editing")] if editing else []
        written = (*METHODS, ("race", ""), ("editor", ""))
        name = "Editing a message" if editing else "Writing a message"
        return KeyContext(name, hints(("send", ""), ("newline", ""), *back, *written, *ALWAYS), box)
    if view.mark.entry is not None:
        repeat = ("edit", "") if isinstance(view.mark.entry, Prompt) else ("retry", "")
        marked = (("copy_answer", ""), repeat, ("message_before message_after", "others"), ("cancel", "done"))
        return KeyContext("A message is marked", hints(*marked, *ALWAYS), box)
    return _idle(dialogue, box, offer)


def _looking(dialogue: Dialogue, view: TranscriptView) -> KeyContext:
    moves = ("inspect_previous inspect_next inspect_above inspect_below", "other passes")
    steps = [("step", ""), ("pause", "continue")] if dialogue.paused and dialogue.busy else []
    far = ("inspect_first inspect_last", "first and last pass")
    look = (("cancel", "back"), ("panels", ""), far, ("colours", ""))
    return KeyContext("Inspecting a pass", hints(moves, *steps, *look, *ALWAYS), view)


def _answering(dialogue: Dialogue, box: PromptInput) -> KeyContext:
    if dialogue.paused:
        steps = (("step", ""), ("pause", "continue"), ("cancel", "stop"))
        return KeyContext("An answer is paused", hints(*steps, *METHODS, *LOOK, *ALWAYS), box)
    more = (("step", ""), ("draft_shorter draft_longer", "draft length"))
    slowed = [("pace", "")] if dialogue.pace else []
    now = (("cancel", "stop"), METHODS[0], *slowed, METHODS[1], ("pause", ""))
    return KeyContext("An answer is being written", hints(*now, *LOOK, *more, *ALWAYS), box)


def _idle(dialogue: Dialogue, box: PromptInput, offer: bool) -> KeyContext:
    help = ("ask_help", "")
    if dialogue.transcript.has_messages:
        more = [("go_on", "")] if dialogue.completes else []
        done = (("next_method", ""), ("inspect", ""), ("race", ""), ("new_chat", ""), ("leader", ""), ("method_menu", ""))
        seldom = (("panels", ""), ("copy_answer", ""), ("retry", ""), ("compare", ""), ("edit", ""), ("quit", ""))
        return KeyContext("In a chat", hints(help, *more, *done, *seldom), box)
    tour = [("send", "tour")] if offer else []
    rest = (("race", ""), ("leader", ""), ("models", ""), ("chats", ""), ("theme_menu", ""), ("quit", ""))
    return KeyContext("A new chat", hints(help, *tour, *METHODS, *rest), box)
