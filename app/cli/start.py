"""Start of the chat, in the order that shows it soonest."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...engine.client import EngineClient
from ...errors import UserError
from ...plain_file import user_path
from ..settings.fields import Settings, Values
from ..settings.locations import first_start
from ..terminal import piped

if TYPE_CHECKING:
    from ..history.chats import OpenedChat


def open_chat(
    settings: Settings,
    notice: str | None,
    file: Path | None = None,
    *,
    last: bool = False,
    resume: str | None = None,
    command_line: Values | None = None,
    tour: bool = False,
) -> int:
    """Run the chat until it is closed; return the exit code.

    Args:
        settings: with the command line's options in them.
        notice: a sentence to show at the start.
        file: a saved chat to continue.
        last: continue the last chat of the history.
        resume: title or number of a chat to continue; empty begins with the list of chats.
        command_line: settings on the command line, by dotted key; they override those of a chat that is continued.

    Raises:
        UserError: not on a terminal, or there is no such chat.
    """
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    terminal = piped.keyboard() if on_terminal and piped.is_piped() else None
    if not on_terminal or (terminal is None and not (sys.stdin and sys.stdin.isatty())):
        also = " It reads piped input." if piped.is_piped() else ""
        raise UserError(f"The chat needs a terminal for its input and output. Use `specchat run PROMPT` here.{also}")
    if os.environ.get("TERM") == "dumb":
        raise UserError("The chat cannot draw on this terminal (TERM is dumb). Use `specchat run PROMPT` here.")
    opened: OpenedChat | None = None
    if last or resume:
        from ..history.chats import reading, resume_settings

        with reading() as chats:
            opened = chats.open(chats.find(None if last else resume).id)
        settings = resume_settings(settings, opened, command_line or ())
    client = EngineClient()
    # The engine imports torch (seconds) while this process imports Textual (0.2 s) and draws.
    client.load(settings.selection())
    try:
        text = warning = ""
        if terminal is not None:
            text, warning = piped.read(sys.stdin.buffer)
            piped.take_over(terminal)
        notice = " ".join(filter(None, (notice, warning))) or None
        from ..tui.app import run_chat

        saved = opened.transcript if opened is not None else None
        if file is not None:
            from ..saved.chat_json import read_chat

            saved = read_chat(user_path(file)).transcript
        offer: Literal["offer", ""] = "offer" if first_start() and not text else ""
        return run_chat(
            settings,
            client,
            notice=notice,
            transcript=saved,
            browse="" if resume == "" else None,
            piped=text,
            tour="begin" if tour else offer,
        )
    finally:
        client.close()
