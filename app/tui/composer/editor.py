"""The draft in an editor of the user's own, for which the chat stands still. The engine goes on with the answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from ....errors import UserError
from ....plain_file import as_text
from ...settings import actions
from ...terminal.editor import alone_in_terminal, editor_command
from ...text.cells import one_line
from ..actions.registry import runs
from ..host import Host

MOST_BYTES = 2_000_000
"""Bytes of a draft: what a message may have in attachments too."""


class ExternalEditor:
    """The user's own editor, which the draft is opened in: /editor."""

    def __init__(self, host: Host, app: App[Any]) -> None:
        self.host, self._app = host, app

    @runs(actions.EDITOR)
    def start(self) -> None:
        """Open the editor; when it ends its text is the draft. What is in the way is told, and the draft stays."""
        box = self.host.box
        try:
            box.rewrite(self._through(editor_command(self.host.live.settings.editor), box.text))
        except UserError as error:
            self.host.tell(f"{error} Your message is unchanged.", "warning")
        except SuspendNotSupported:
            self.host.tell("This terminal cannot be handed to an editor. Your message is unchanged.", "warning")

    def _through(self, command: list[str], draft: str) -> str:
        """What becomes of a text in the editor."""
        name = one_line(Path(command[0]).name)
        try:
            with tempfile.TemporaryDirectory(prefix="specchat-") as folder:  # for this user alone
                file = Path(folder) / "draft.md"
                file.write_bytes(f"{draft}\n".encode("utf-8", "surrogatepass") if draft else b"")
                # Output that goes elsewhere (specchat > file) is no place for an editor; what is drawn goes to standard error.
                out = None if os.isatty(1) else sys.__stderr__
                with _away(self._app):
                    code = subprocess.run([*command, str(file)], stdout=out, check=False).returncode
                if code:
                    how = f"was ended by signal {-code}" if code < 0 else f"ended with the code {code}"
                    raise UserError(f"{name} {how}, so its text was not used. Your message is as it was.")
                return _read(file, name)
        except OSError as error:
            raise UserError(f"Could not run {name} ({error.strerror}). Choose another editor.") from None


def _read(file: Path, name: str) -> str:
    """The edited draft.

    Raises:
        UserError: there is none, or it is no text.
    """
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UserError(f"The text from {name} is larger than {MOST_BYTES // 1_000_000} MB. Attach it as a file with @.")
        data = file.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{name} left no file. Your message is as it was.") from None
    if b"\0" in data:
        raise UserError(f"{name} left a file that is not text. Your message is as it was.")
    text = as_text(data).replace("\r\n", "\n")
    return text.removesuffix("\n")  # editors end a file with a line break


@contextlib.contextmanager
def _away(app: App[Any]) -> Iterator[None]:
    """Hand the terminal over.

    Raises:
        SuspendNotSupported: there is no terminal.
    """
    # Ctrl-C and Ctrl-\ in the editor reach every process of this terminal. A handler, unlike SIG_IGN, is not inherited.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    if alone_in_terminal():  # nothing could resume an editor that ctrl+z stops: it inherits that it must not
        before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        with app.suspend():
            modes = None
            with contextlib.suppress(termios.error, OSError):
                modes = termios.tcgetattr(0)
            try:
                yield
            finally:
                if modes is not None:  # an editor that was killed leaves the terminal as it needed it
                    with contextlib.suppress(termios.error, OSError):
                        termios.tcsetattr(0, termios.TCSADRAIN, modes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    app.refresh(layout=True)
