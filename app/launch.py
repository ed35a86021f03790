"""From `specchat` to the chat on the screen, in the order that shows it soonest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..backends.base import UserError
from ..engine.client import EngineClient
from .settings import Settings


def open_chat(settings: Settings, notice: str | None, file: Path | None = None) -> int:
    """Run the chat until it is closed; return the exit code.

    Args:
        settings: with the command line's options in them.
        notice: a sentence to show at the start (a settings file that could not be used).
        file: a saved chat to go on with.

    Raises:
        UserError: not on a terminal, or the file is no saved chat.
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

        saved = None
        if file is not None:
            from .export import read_chat

            saved = read_chat(file.expanduser()).transcript
        return run_chat(settings, client=client, load=load, notice=notice, transcript=saved)
    finally:
        client.close()
