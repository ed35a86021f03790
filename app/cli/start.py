"""From `specchat` to the chat on the screen, in the order that shows it soonest."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine.client import EngineClient
from ...errors import UserError
from ...plain_file import user_path
from ..settings.fields import Settings
from ..settings.locations import first_start
from ..terminal import piped

if TYPE_CHECKING:
    from ..history.chats import OpenedChat
    from ..race.record import RaceRecord


def open_chat(
    settings: Settings,
    notice: str | None,
    file: Path | None = None,
    *,
    last: bool = False,
    resume: str | None = None,
    given: Mapping[str, Any] | None = None,
    tour: bool = False,
) -> int:
    """Run the chat until it is closed; return the exit code.

    Args:
        settings: with the command line's options in them.
        notice: a sentence to show at the start.
        file: a saved chat to go on with, or a race to show.
        last: go on with the last chat of the history.
        resume: a title or a number: go on with that chat; empty begins with the list of chats.
        given: what the command line asks for: it goes before what a chat was written with.

    Raises:
        UserError: not on a terminal, or there is no such chat.
    """
    shown = sys.stdout is not None and sys.stdout.isatty()
    terminal = piped.keyboard() if shown and piped.is_piped() else None
    if not shown or (terminal is None and not (sys.stdin and sys.stdin.isatty())):
        also = " It reads piped input." if piped.is_piped() else ""
        raise UserError(f"The chat needs a terminal for its input and output. Use `specchat run PROMPT` here.{also}")
    if os.environ.get("TERM") == "dumb":
        raise UserError("The chat cannot draw on this terminal (TERM is dumb). Use `specchat run PROMPT` here.")
    found: OpenedChat | str | None = None
    fallback = None
    if last or resume is not None:
        from ..history.resume import continued, find, remarks

        found = find(None if last else resume)
        if not isinstance(found, str):
            own = continued(settings, found, given)
            if own.model != settings.model:
                fallback = (settings.model, settings.load_options())
            settings = own
            notice = " ".join(filter(None, (notice, *remarks(found, settings.model)))) or None
    client = EngineClient()
    # The engine imports torch (seconds) while this process imports Textual (0.2 s) and draws.
    client.load(settings.model, **settings.load_options())
    try:
        text = odd = ""
        if terminal is not None:
            text, odd = piped.read(sys.stdin.buffer)
            piped.take_over(terminal)
        notice = " ".join(filter(None, (notice, odd))) or None
        from ..tui.app import run_chat

        saved = found.transcript if found is not None and not isinstance(found, str) else None
        browse = found if isinstance(found, str) else None
        race: RaceRecord | None = None
        if file is not None:
            from ..saved.capture import SavedChat
            from ..saved.race_json import read_saved

            if isinstance(read := read_saved(user_path(file)), SavedChat):
                saved = read.transcript
            else:
                race = read
        return run_chat(
            settings,
            client,
            notice=notice,
            transcript=saved,
            browse=browse,
            race=race,
            piped=text,
            fallback=fallback,
            tour="begin" if tour else "offer" if first_start() and not text else "",
        )
    finally:
        client.close()
