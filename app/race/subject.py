"""Who might race, and on what."""

from __future__ import annotations

from ..chat.dialogue import Dialogue
from ..chat.entries import Prompt
from ..chat.transcript import Transcript

FAVOURITES = ("fusion", "lookup", "auto", "tree", "draft", "recycle", "ngram", "early-exit", "lookahead", "jacobi")
"""Who is asked to race first."""


def suggested(dialogue: Dialogue, count: int = 3) -> list[str]:
    """Who might race: the plain method, the one in force, and favourites that this model can run."""
    able = [name for name in dialogue.methods if name not in dialogue.unavailable]
    wanted = ["greedy", dialogue.method, *FAVOURITES, *able]
    return list(dict.fromkeys(name for name in wanted if name in able))[:count]


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
