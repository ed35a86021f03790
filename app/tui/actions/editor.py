"""The draft in the user's editor, which has the terminal meanwhile; the engine continues its answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from ....errors import UserError
from ....plain_file import as_text
from ...settings import actions
from ...terminal.editor import alone_in_terminal, editor_command
from ...text.cells import one_line
from ..host import Host
from .dispatch import runs

MOST_BYTES = 2_000_000
"""Most bytes of a draft, as of attachments."""


@dataclass(eq=False)
class ExternalEditor:
    """Opens the draft in the user's editor: /editor."""

    host: Host
    app: App[Any]

    @runs(actions.EDITOR)
    def start(self) -> None:
        """Edit the draft; after a failure it stays, and a notice says why."""
        box = self.host.box
        try:
            box.rewrite(self._edit(editor_command(self.host.live.settings.editor), box.text))
        except UserError as error:
            self.host.tell(f"{error} Your message is unchanged.", "warning")
        except SuspendNotSupported:
            self.host.tell("This terminal cannot be handed to an editor. Your message is unchanged.", "warning")

    def _edit(self, command: list[str], draft: str) -> str:
        name = one_line(Path(command[0]).name)
        try:
            with tempfile.TemporaryDirectory(prefix="specchat-") as folder:  # for this user alone
                file = Path(folder) / "draft.md"
                file.write_bytes(f"{draft}\n".encode("utf-8", "surrogatepass") if draft else b"")
                # If standard output is a file (specchat > file), the editor draws on standard error, like the chat.
                out = None if os.isatty(1) else sys.__stderr__
                with _away(self.app):
                    code = subprocess.run([*command, str(file)], stdout=out, check=False).returncode
                if code:
                    how = f"was ended by signal {-code}" if code < 0 else f"ended with the code {code}"
                    raise UserError(f"{name} {how}, so its text was not used. Your message is as it was.")
                return _read(file, name)
        except OSError as error:
            raise UserError(f"Could not run {name} ({error.strerror}). Choose another editor.") from None


def _read(file: Path, name: str) -> str:
    """Read the edited draft.

    Raises:
        UserError: there is no file, or it is not a text.
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
    return text.removesuffix("\n")  # the last line break is the editor's


@contextlib.contextmanager
def _away(app: App[Any]) -> Iterator[None]:
    """Suspend the app and restore the terminal afterwards.

    Raises:
        SuspendNotSupported: there is no terminal.
    """
    # Ctrl-C and Ctrl-\ in the editor reach every process of this terminal. A handler, unlike SIG_IGN, is not inherited.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    if alone_in_terminal():  # nothing could resume an editor that ctrl+z stops, so it inherits SIG_IGN
        before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        with app.suspend():
            modes = None
            with contextlib.suppress(termios.error, OSError):
                modes = termios.tcgetattr(0)
            try:
                yield
            finally:
                if modes is not None:  # a killed editor leaves its own modes
                    with contextlib.suppress(termios.error, OSError):
                        termios.tcsetattr(0, termios.TCSADRAIN, modes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    app.refresh(layout=True)
