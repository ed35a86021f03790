"""What one is in the midst of in a chat, and the keys that matter then."""

from __future__ import annotations

from ...chat.dialogue import Dialogue
from ...chat.entries import Prompt
from ..composer.box import PromptInput
from ..keys.moment import Moment, hints
from ..transcript.view import TranscriptView

ALWAYS = (("leader", ""), ("help", ""), ("quit", ""))
"""At the end of each."""


def chat_moment(dialogue: Dialogue, box: PromptInput, view: TranscriptView, editing: bool) -> Moment:
    """The moment of a chat.

    Args:
        dialogue: the conversation with the engine.
        box: the input box.
        view: the transcript.
        editing: a message that was sent is being edited.
    """
    moves = ("inspect_previous inspect_next inspect_above inspect_below", "other runs")
    if view.cursor.by_keys:
        steps = (("step", ""), ("pause", "go on")) if dialogue.paused and dialogue.busy else ()
        found = hints(moves, *steps, ("panels", ""), ("copy_answer", "copy the run"), ("cancel", "back"), *ALWAYS)
        return Moment("Looking into a run", found, view)
    if box.offering:
        offered = (("history_back history_forward", "choose"), ("complete", "take"), ("cancel", "close"), ("send", "run"))
        return Moment("A name or a command", hints(*offered, *ALWAYS), box)
    if box.text.startswith("/"):
        return Moment("A command", hints(("send", "run"), ("complete", ""), *ALWAYS), box)
    methods = (("next_method", ""), ("method_menu", ""))
    look = (("inspect", ""), ("panels", ""), ("colours", ""))
    if dialogue.busy:
        if dialogue.paused:
            steps = (("step", "one step"), ("pause", "go on"), ("cancel", "stop"))
            return Moment("An answer is paused", hints(*steps, *methods, *look, *ALWAYS), box)
        going = (
            ("cancel", "stop"),
            *methods,
            ("pause", ""),
            *look,
            ("draft_shorter draft_longer", "draft length"),
            ("step", ""),
        )
        return Moment("An answer is being written", hints(*going, *ALWAYS), box)
    if dialogue.queued is not None:
        return Moment("A message waits", hints(("cancel", "take it back"), *methods, *ALWAYS), box)
    if box.text:
        back = (("cancel", "stop editing"),) if editing else ()
        written = (("send", ""), ("newline", ""), *back, *methods, ("race", ""), ("editor", ""), ("prompt_search", ""))
        return Moment("Editing a message" if editing else "Writing a message", hints(*written, *ALWAYS), box)
    if view.mark.entry is not None:
        again = ("edit", "") if isinstance(view.mark.entry, Prompt) else ("retry", "")
        marked = (("copy_answer", ""), again, ("message_before message_after", "others"), ("cancel", "done"))
        return Moment("A message is marked", hints(*marked, *ALWAYS), box)
    help = ("ask_help", "")
    if dialogue.transcript.entries:
        done = (("next_method", ""), ("inspect", ""), ("race", ""), ("new_chat", ""), ("leader", ""), ("method_menu", ""))
        more = (("panels", ""), ("copy_answer", ""), ("retry", ""), ("edit", ""), ("quit", ""))
        return Moment("In a chat", hints(help, *done, *more), box)
    empty = (
        ("complete", "starters"),
        *methods,
        ("race", ""),
        ("leader", ""),
        ("models", ""),
        ("theme_menu", ""),
        ("chats", ""),
    )
    return Moment("A new chat", hints(help, *empty, ("quit", "")), box)
