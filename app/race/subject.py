"""Who might race, and on what."""

from __future__ import annotations

from functools import partial

from ..chat.choosing import PLAIN, why_plain
from ..chat.dialogue import Dialogue
from ..chat.entries import Prompt
from ..chat.transcript import Transcript

LANES = 3
"""Lanes at first: as many as fit side by side in a usual terminal."""


def suggested(dialogue: Dialogue) -> list[str]:
    """Who might race: plain decoding, the method in force, and those worth a try; what was slower here comes last."""
    if dialogue.info.get("server"):
        return dialogue.shortlist()[:LANES]
    able = [name for name in dialogue.methods if name not in dialogue.unavailable]
    rivals = [name for name in (dialogue.method, *dialogue.shortlist()) if name in able and drafts(dialogue, name)]
    rivals.sort(key=partial(loses, dialogue))
    found = list(dict.fromkeys((*(name for name in able if name == PLAIN), *rivals)))[:LANES]
    return found if len(found) > 1 else able[:2]


def drafts(dialogue: Dialogue, method: str) -> bool:
    """Whether a method can be sooner than plain decoding."""
    return dialogue.methods[method].group != "plain"


def loses(dialogue: Dialogue, method: str) -> bool:
    """Whether a method has been slower here than plain decoding."""
    return (dialogue.speedup(method) or 1) < 1


def warning(dialogue: Dialogue) -> str:
    """A sentence where plain decoding has beaten every method worth a try, or will; empty where a race may go otherwise."""
    rivals = [name for name in dialogue.shortlist() if drafts(dialogue, name)]
    beaten = bool(rivals) and all(loses(dialogue, name) for name in rivals)
    return "The last time, nothing was faster here than plain decoding." if beaten else why_plain(dialogue.info)


SHORT = 0.05
"""Seconds of decoding: what a machine does beside a shorter answer may take as long as methods save."""


def last_message(dialogue: Dialogue) -> str:
    """What a race on the last message is on, in words; with a remark where its answer was too short to tell methods apart."""
    figures = [answer.figures for answer in dialogue.transcript.answers()][-1:]
    if figures and figures[0].tokens and figures[0].decode_seconds < SHORT:
        return f"The last message. Its answer took {1000 * figures[0].decode_seconds:.0f} ms: chance may decide the race."
    return "The last message of this chat."


def talk(dialogue: Dialogue, prompt: str | None) -> tuple[str, list[dict[str, str]]] | None:
    """What to race on: a prompt as the next message of the chat, or (None) the last one that was sent, with the chat before it.

    Returns:
        The prompt and what the model is told; None if there is no prompt.
    """
    transcript = dialogue.transcript
    entries = list(transcript.entries)
    if prompt is None:
        last = next((i for i in reversed(range(len(entries))) if isinstance(entries[i], Prompt)), None)
        if last is None:
            return None
        entries = entries[: last + 1]
    else:
        entries.append(Prompt(prompt))
    asked = next(entry for entry in reversed(entries) if isinstance(entry, Prompt))
    return asked.text, Transcript(entries, transcript.system).messages()
