"""/import: chats from elsewhere, brought into the history from the chat itself, beside it and with progress."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from ....errors import UserError
from ....plain_file import user_path
from ...text.cells import one_line

if TYPE_CHECKING:
    from ...importing.keeping import Tally
    from ...importing.run import Report
    from ..app import SpecchatApp

USAGE = "/import takes files: logs.db of llm, an export of ChatGPT or Claude, JSONL with messages; -n only counts, stop ends."

SAYS_SECONDS = 3.0
"""Between two sentences on how far a long import is."""

NAMED = 3
"""Records that could not be read and are named; `specchat history import` names more of them."""


class Importing:
    """Imports files, one import at a time.

    Args:
        chat: the app.
    """

    def __init__(self, chat: SpecchatApp) -> None:
        self.chat = chat
        self._stop: Event | None = None

    @property
    def busy(self) -> bool:
        """One is under way."""
        return self._stop is not None

    def command(self, words: Sequence[str]) -> None:
        """What /import does.

        Raises:
            UserError: nothing was named, or an import is under way.
        """
        if list(words) in (["stop"], ["cancel"]):
            self.stop()
            return
        dry = any(word in ("-n", "--dry-run") for word in words)
        names = [word for word in words if word not in ("-n", "--dry-run")]
        if not names:
            raise UserError(USAGE)
        if self.busy:
            raise UserError("An import is under way: wait for its end, or /import stop.")
        paths = [user_path(name) for name in names]
        self._stop = Event()
        # Its thread must end with the chat, whatever the file is.
        self.chat.run_worker(self._run(paths, dry, self._stop), group="import")

    def stop(self) -> None:
        """Cancel the import; what it took in so far stays.

        Raises:
            UserError: there is none.
        """
        if self._stop is None:
            raise UserError(f"No import is under way. {USAGE}")
        self._stop.set()

    async def _run(self, paths: Sequence[Path], dry: bool, stop: Event) -> None:
        from ...importing.run import import_files

        said = monotonic()

        def progress(name: str, done: int, total: int, tally: Tally) -> None:
            nonlocal said
            now = monotonic()
            if now - said > SAYS_SECONDS and total:
                said = now
                share = min(1.0, done / total)
                text = f"Importing {name}: {share:.0%}, {tally.chats + tally.branches:,} chats so far. /import stop cancels."
                self.chat.call_from_thread(self.chat.tell, text)

        try:
            report = await asyncio.to_thread(import_files, paths, dry=dry, progress=progress, stop=stop)
        except UserError as error:
            self.chat.tell(str(error), "error")
            return
        finally:
            stop.set()  # the chat was left: so must the thread
            self._stop = None
        self._say(report)

    def _say(self, report: Report) -> None:
        problems = report.problems()
        sentence = report.sentence()
        if report.tally and not report.dry:
            sentence += " /chats has them."
        more = f" {len(problems) - NAMED} more: `specchat history import` names them." if len(problems) > NAMED else ""
        if problems:
            self.chat.dialogue.notice(f"{sentence} {' '.join(map(one_line, problems[:NAMED]))}{more}", "warning")
            self.chat.chat_screen.refresh_dialogue()
        else:
            self.chat.tell(sentence)
