"""The draft in an editor of the user's own. The terminal is the editor's meanwhile; the answer goes on, and is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from ....errors import UserError
from ....plain_file import as_text
from ...settings import actions
from ...terminal.editor import editor_command
from ...text.cells import one_line
from ..actions.registry import runs
from ..host import Host

MOST_BYTES = 2_000_000
"""Bytes of a draft: what a message may have in attachments too."""


class ExternalEditor:
    """The user's own editor, which the draft is opened in: /editor."""

    def __init__(self, host: Host, app: App[Any], ended: Callable[[], None]) -> None:
        self.host, self._app, self._ended = host, app, ended
        self.open = False
        """An editor has the terminal."""
        self._process: subprocess.Popen[bytes] | None = None

    @runs(actions.EDITOR)
    def start(self) -> None:
        """Open the editor; when it ends its text is the draft. What is in the way is told, and the draft stays."""
        if not self.open:
            self._app.run_worker(self._edited(), group="editor")

    def end(self, number: int) -> bool:
        """Pass a signal that ends the chat on to the editor; False where there is none. The chat ends after it."""
        if self._process is None:
            return False
        self._process.send_signal(number)
        return True

    async def _edited(self) -> None:
        try:
            await self._edit()
        finally:
            self._ended()

    async def _edit(self) -> None:
        box = self.host.box
        draft = box.text
        self.open = True
        try:
            command = editor_command(self.host.live.settings.editor)
            text = await self._through(command, draft)
        except UserError as error:
            self.host.tell(f"{error} Your message is unchanged.", "warning")
            return
        except SuspendNotSupported:
            self.host.tell("This terminal cannot be handed to an editor. Your message is unchanged.", "warning")
            return
        finally:
            self.open = False
        now = box.text
        if now != draft and now.endswith(draft):  # a message that could not go out has come back before the draft
            text = now[: len(now) - len(draft)] + text
        box.rewrite(text)

    async def _through(self, command: list[str], draft: str) -> str:
        """What becomes of a text in the editor."""
        name = one_line(Path(command[0]).name)
        try:
            folder = Path(tempfile.mkdtemp(prefix="specchat-"))  # for this user alone
        except OSError as error:
            raise UserError(f"Cannot write to the temporary folder ({error.strerror}). Free some space there.") from None
        file = folder / "draft.md"
        try:
            file.write_bytes(f"{draft}\n".encode("utf-8", "surrogatepass") if draft else b"")
            with _away(self._app):
                code = await self._run([*command, str(file)])
            if code:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with the code {code}"
                raise UserError(f"{name} {how}, so its text was not used.")
            return _read(file, name)
        except OSError as error:
            raise UserError(f"Could not run {name} ({error.strerror}). Choose another editor.") from None
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _run(self, command: list[str]) -> int:
        # Output that goes elsewhere (specchat > file) is no place for an editor; what is drawn goes to standard error then too.
        out = None if os.isatty(1) else sys.__stderr__
        self._process = subprocess.Popen(command, stdout=out)
        try:
            return await asyncio.to_thread(self._process.wait)
        finally:
            self._process = None


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
        raise UserError(f"{name} left no file.") from None
    if b"\0" in data:
        raise UserError(f"{name} left a file that is not text.")
    text = as_text(data).replace("\r\n", "\n")
    return text.removesuffix("\n")  # editors end a file with a line break


@contextlib.contextmanager
def _away(app: App[Any]) -> Iterator[None]:
    """Hand the terminal over. Events of the engine are taken in meanwhile, so nothing may be drawn.

    Raises:
        SuspendNotSupported: there is no terminal.
    """
    # Ctrl-C and Ctrl-\ in the editor reach every process of this terminal. A handler, unlike SIG_IGN, is not inherited.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        with app.batch_update(), app.suspend():
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
