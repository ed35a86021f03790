"""The draft in the user's editor, which has the terminal meanwhile; the engine continues its answer."""

from __future__ import annotations

import signal
import subprocess
import tempfile
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
            box.rewrite(self._edit(editor_command(), box.text))
        except UserError as error:
            self.host.tell(f"{error} Your message is unchanged.", "warning")
        except SuspendNotSupported:
            self.host.tell("This terminal cannot be handed to an editor. Your message is unchanged.", "warning")

    def _edit(self, command: list[str], draft: str) -> str:
        """Run an editor on a text; return the edited one.

        Raises:
            UserError: it cannot run, or it failed.
            SuspendNotSupported: there is no terminal.
        """
        name = one_line(Path(command[0]).name)
        try:
            with tempfile.TemporaryDirectory(prefix="specchat-") as folder:  # for this user alone
                file = Path(folder) / "draft.md"
                file.write_bytes(f"{draft}\n".encode("utf-8", "surrogatepass") if draft else b"")
                if code := self._run([*command, str(file)]):
                    ending = f"was ended by signal {-code}" if code < 0 else f"ended with the code {code}"
                    raise UserError(f"{name} {ending}, so its text was not used. Your message is as it was.")
                return as_text(file.read_bytes()).replace("\r\n", "\n").removesuffix("\n")  # the last one is the editor's
        except OSError as error:
            raise UserError(f"Could not run {name} ({error.strerror}). Choose another editor.") from None

    def _run(self, command: list[str]) -> int:
        # Ctrl-C and Ctrl-\ in the editor reach every process of this terminal. A handler, unlike SIG_IGN, is not inherited.
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
        if alone_in_terminal():  # nothing could resume an editor that ctrl+z stops, so it inherits SIG_IGN
            before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        try:
            with self.app.suspend():
                return subprocess.run(command, check=False).returncode
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.app.refresh(layout=True)
