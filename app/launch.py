"""From `specchat` to the chat on the screen, in the order that shows it soonest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..backends.base import UserError
from ..engine.client import EngineClient
from .settings import Settings


def open_chat(
    settings: Settings, notice: str | None, file: Path | None = None, *, last: bool = False, resume: str | None = None
) -> int:
    """Run the chat until it is closed; return the exit code.

    Args:
        settings: with the command line's options in them.
        notice: a sentence to show at the start (a settings file that could not be used).
        file: a saved chat to go on with.
        last: go on with the last chat of the history.
        resume: a title or a number: go on with that chat; empty begins with the list of chats.

    Raises:
        UserError: not on a terminal, or there is no such chat.
    """
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise UserError("The chat needs a terminal for its input and output: use `specchat run PROMPT` here.")
    if os.environ.get("TERM") == "dumb":
        raise UserError("The chat cannot draw on this terminal (TERM is dumb): use `specchat run PROMPT` here.")
    client = EngineClient()
    # The engine imports torch (seconds) while this process imports Textual (0.2 s) and draws.
    load = client.load(settings.model, **settings.load_options())
    try:
        from .chat import run_chat

        saved, browse = None, None
        if file is not None:
            from .export import read_chat

            saved = read_chat(file.expanduser()).transcript
        elif last or resume is not None:
            from .history.keeping import find, remarks

            found = find(None if last else resume)
            if isinstance(found, str):
                browse = found
            else:
                saved = found.transcript
                notice = " ".join(filter(None, (notice, *remarks(found, settings.model)))) or None
        return run_chat(settings, client=client, load=load, notice=notice, transcript=saved, browse=browse)
    finally:
        client.close()
