"""Suggestions for a race: its methods and its prompt."""

from __future__ import annotations

from functools import partial

from ..chat.dialogue import Dialogue
from ..chat.entries import Prompt
from ..chat.methods import PLAIN, why_plain
from ..chat.transcript import Transcript

LANES = 3
"""Suggested number of lanes: as many as fit side by side in a usual terminal."""


def suggest_methods(dialogue: Dialogue) -> list[str]:
    """Suggest methods: plain decoding, the method in force, and those worth a try; the ones that were slower come last."""
    if dialogue.info.server:
        return dialogue.shortlist()[:LANES]
    able = [name for name in dialogue.methods if name not in dialogue.unavailable]
    rivals = [name for name in (dialogue.method, *dialogue.shortlist()) if name in able and drafts(dialogue, name)]
    rivals.sort(key=partial(loses, dialogue))
    methods = list(dict.fromkeys((*(name for name in able if name == PLAIN), *rivals)))[:LANES]
    return methods if len(methods) > 1 else able[:2]


def drafts(dialogue: Dialogue, method: str) -> bool:
    """Whether a method can be faster than plain decoding."""
    return dialogue.methods[method].group != "plain"


def loses(dialogue: Dialogue, method: str) -> bool:
    """Whether a method was slower than plain decoding on this model."""
    return (dialogue.speedup(method) or 1) < 1


def warning(dialogue: Dialogue) -> str:
    """Warn that plain decoding has beaten every method worth a try, or will; empty if others may win."""
    rivals = [name for name in dialogue.shortlist() if drafts(dialogue, name)]
    beaten = bool(rivals) and all(loses(dialogue, name) for name in rivals)
    return "The last time, nothing was faster here than plain decoding." if beaten else why_plain(dialogue.info)


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
