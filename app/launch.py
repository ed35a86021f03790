"""From `specchat` to the chat on the screen, in the order that shows it soonest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..backends.base import UserError
from ..engine.client import EngineClient
from . import piped
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
    shown = sys.stdout is not None and sys.stdout.isatty()
    terminal = piped.keyboard() if shown and piped.is_piped() else None
    if not shown or (terminal is None and not (sys.stdin and sys.stdin.isatty())):
        also = " It takes what is piped in." if piped.is_piped() else ""
        raise UserError(f"The chat needs a terminal for its input and output: use `specchat run PROMPT` here.{also}")
    if os.environ.get("TERM") == "dumb":
        raise UserError("The chat cannot draw on this terminal (TERM is dumb): use `specchat run PROMPT` here.")
    client = EngineClient()
    # The engine imports torch (seconds) while this process imports Textual (0.2 s) and draws.
    load = client.load(settings.model, **settings.load_options())
    try:
        text = ""
        if terminal is not None:
            text, odd = piped.read(sys.stdin.buffer)
            notice = " ".join(filter(None, (notice, odd))) or None
            piped.take_over(terminal)
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
        return run_chat(settings, client=client, load=load, notice=notice, transcript=saved, browse=browse, piped=text)
    except KeyboardInterrupt:  # while standard input was read; later on ctrl+c is a key
        return 130
    finally:
        client.close()
