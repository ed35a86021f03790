"""The draft in the user's editor, which has the terminal meanwhile; the engine continues its answer."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from ....errors import UserError
from ....plain_file import as_text
from ...settings import actions
from ...text.cells import one_line
from ..host import Host
from .dispatch import runs

FALLBACKS = ("nano", "vim", "vi", "emacs")
"""Editors to try if none is named; nano first, because it shows its keys."""
WAITING = {**dict.fromkeys(("code", "codium", "cursor", "zed", "subl"), "--wait"), **{"mate": "-w", "gvim": "-f"}}
"""Editors that open a window → the option without which they end at once."""


def alone_in_terminal() -> bool:
    """Whether there is no shell that could resume a chat that ctrl+z stops."""
    return os.getsid(0) == os.getpid()


def editor_command(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the words of the command that opens an editor.

    Args:
        environment: variables; those of this process if None.

    Raises:
        UserError: there is no such program, or none at all.
    """
    env = os.environ if environment is None else environment
    for source in ("$VISUAL", "$EDITOR"):
        text = env.get(source[1:], "")
        if not text.strip():
            continue
        try:
            words = shlex.split(text)
        except ValueError:
            raise UserError(f"A quote is not closed in {source}: {one_line(text)}.") from None
        words[0] = os.path.expanduser(words[0])
        if shutil.which(words[0], path=env.get("PATH")) is None:
            raise UserError(f"There is no program {one_line(words[0])}, the editor in {source}. Name another there.")
        name = Path(words[0]).name
        if name in WAITING and len(words) == 1:
            words.append(WAITING[name])
        return words
    for name in FALLBACKS:
        if shutil.which(name, path=env.get("PATH")):
            return [name]
    raise UserError("No editor is set. Set EDITOR=nano in your shell.")


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
