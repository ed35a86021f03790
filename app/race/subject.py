"""Suggestions for a race: its methods and its prompt."""

from __future__ import annotations

from ..chat.dialogue import Dialogue
from ..chat.entries import Prompt
from ..chat.methods import PLAIN
from ..chat.transcript import Transcript

LANES = 3
"""Suggested number of lanes: as many as fit side by side in a usual terminal."""


def suggest_methods(dialogue: Dialogue) -> list[str]:
    """Suggest methods: plain decoding, the method in force, and those worth a try."""
    if dialogue.info.server:
        return dialogue.shortlist()[:LANES]
    able = [name for name in dialogue.methods if name not in dialogue.unavailable]
    rivals = [name for name in (dialogue.method, *dialogue.shortlist()) if name in able and drafts(dialogue, name)]
    methods = list(dict.fromkeys((*(name for name in able if name == PLAIN), *rivals)))[:LANES]
    return methods if len(methods) > 1 else able[:2]


def drafts(dialogue: Dialogue, method: str) -> bool:
    """Whether a method can be faster than plain decoding."""
    return dialogue.methods[method].group != "plain"


def race_prompt(dialogue: Dialogue, text: str | None) -> tuple[str, list[dict[str, str]]] | None:
    """Return the prompt of a race and its messages: `text` as the chat's next message, or (None) the last message that was
    sent, with the chat before it. None if there is no prompt."""
    entries = list(dialogue.transcript.entries)
    if text is not None:
        entries.append(Prompt(text))
    while entries and not isinstance(entries[-1], Prompt):
        entries.pop()
    match entries:
        case [*_, Prompt(text)]:
            return text, Transcript(entries, dialogue.transcript.system).messages()
        case _:
            return None
