"""Past answers to draft from: texts of the client's history as tokens of the loaded model, indexed in the background."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from .logfile import log
from .messages import Event, Remember, Remembered

if TYPE_CHECKING:
    from ..backends.base import Model
    from ..decoders.past.index import Past

Work = Callable[[], None]


def keep_only(folder: Path, keys: Collection[int]) -> None:
    """Remove all other answers from every tokenizer's index, without an engine; running engines follow at their next draft. An
    index that cannot be rewritten, as on a full disk, is deleted: the next chat builds it again.

    Args:
        folder: of the indexes.
        keys: of the answers that may stay.

    Raises:
        OSError: deleting is not possible either.
    """
    from ..decoders.past.index import SUFFIX, Past

    for index in folder.iterdir():
        if not index.is_dir():
            continue
        try:
            past = Past(index)
            if unwanted := past.keys - {*keys}:
                past.forget(unwanted)
        except OSError:
            for file in index.glob(f"*{SUFFIX}"):
                with suppress(FileNotFoundError):  # another process has replaced it
                    file.unlink()


class PastAnswers:
    """The index of the loaded model's tokenizer. A thread sorts it, which takes time; drafts continue meanwhile.

    Args:
        post: receives the events.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._open: tuple[Model, str, Past] | None = None
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def get(self, model: Model | None, folder: str) -> Past | None:
        """Return the answers that a model may draft from, if a Remember has opened them."""
        if self._open is not None and self._open[:2] == (model, folder):
            return self._open[2]
        return None

    def close(self) -> None:
        """Close the index, as its model is freed."""
        self._open = None

    def remember(self, command: Remember, model: Model | None) -> None:
        """Add answers, and forget others. Disk errors are only logged, as answers do not depend on the index."""
        if model is None:
            return
        try:
            past = self.get(model, command.folder) or self._opened(model, command.folder)
            start = model.encode("")
            answers = []
            for key, text in command.answers:
                tokens = model.encode(text)
                answers.append((int(key), tokens[len(start) :] if tokens[: len(start)] == start else tokens))
        except Exception as error:  # a tokenizer may raise anything
            log(f"past answers cannot be used: {type(error).__name__}: {error}")
            return

        def work() -> None:
            if command.forget:
                past.forget(command.forget)
            past.add(answers)
            self._post(Remembered(command.id, sorted(past.keys)))

        if command.forget and not answers:  # at once: queued work may take seconds
            self._try(work)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="past answers", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _opened(self, model: Model, folder: str) -> Past:
        from ..decoders.past.index import Past

        past = Past(Path(folder) / fingerprint(model)[:16], model.info.vocabulary)
        self._open = model, folder, past
        return past

    def _run(self) -> None:
        while True:
            self._try(self._work.get())

    def _try(self, work: Work) -> None:
        try:
            work()
        except OSError as error:
            log(f"past answers cannot be kept: {error}")


def fingerprint(model: Model) -> str:
    """Hash a model's token texts: equal for two models whose tokens have the same texts."""
    digest = sha256()
    for piece in model.pieces():
        digest.update(piece.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
