"""Models inside the chat: the picker, loading what was picked, downloads that go on behind it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ....engine.options import BUILTIN, BUILTIN_DRAFT
from ....errors import UserError
from ....plain_file import user_path
from ...text.amounts import size_of

if TYPE_CHECKING:
    from textual.timer import Timer

    from ...models.downloads import Downloads
    from ...models.library import Library
    from ...models.memory import Room
    from ..app import SpecchatApp

NEWS_SECONDS = 0.25
"""Between looks whether a download has ended."""


class Models:
    """What the chat knows of models.

    Args:
        chat: the app.
    """

    def __init__(self, chat: SpecchatApp) -> None:
        self.chat = chat
        self._library: Library | None = None
        self._downloads: Downloads | None = None
        self._news: Timer | None = None

    # What follows is imported when it is needed: 20 ms that the first frame need not wait for.

    @property
    def library(self) -> Library:
        """What has been found so far."""
        if self._library is None:
            from ...models.library import Library

            self._library = Library()
        return self._library

    @property
    def downloads(self) -> Downloads:
        """Downloads; the record of earlier ones is read at the first call."""
        if self._downloads is None:
            from ...models.downloads import Downloads

            self._downloads = Downloads()
        return self._downloads

    def browse(self, query: str = "") -> None:
        """Show the picker.

        Args:
            query: what to search for to begin with; `owner/name` is looked up on the Hub.
        """
        from ...models.search import Looking
        from ...models.view import View
        from ..pickers.models import ModelsScreen

        dialogue, settings = self.chat.dialogue, self.chat.settings
        if dialogue.info:
            self.remember(dialogue.model)
        if self.downloads.active:
            self.watch_downloads()
        looking = Looking(self.library, settings.model_folders, self.room)
        view = View(looking, self.downloads, dialogue, settings.load_options())
        self.chat.push_screen(ModelsScreen(view, self.load, self.watch_downloads, settings.keymap, query))

    def load(self, spec: str, *, backend: str = "auto", revision: str | None = None, draft: str | None = None) -> None:
        """Load a model, and a draft model with it.

        Raises:
            UserError: an answer is under way.
        """
        dialogue = self.chat.dialogue
        if dialogue.busy:
            raise UserError("An answer is being written: stop it with esc, then load another model.")
        dialogue.load_model(spec, backend=backend, revision=revision, draft_model=draft)
        self.remember(spec)
        self.chat.stir()
        self.chat.changed()

    def backend_for(self, spec: str) -> str:
        """The runtime that a name is loaded on: the setting's for the built-in models, which come for both; others have one."""
        return self.chat.settings.backend if spec in (BUILTIN, BUILTIN_DRAFT) else "auto"

    def remember(self, spec: str) -> None:
        """Keep the name of a model on the disk for the list of those that were used lately."""
        from ...models.recent import remember

        path = user_path(spec)
        if path.is_absolute() or spec.lower().endswith(".gguf") or spec.startswith("."):
            threading.Thread(target=remember, args=(str(path.absolute()),), daemon=True).start()

    def room(self) -> Room:
        """What is free for another model, what the loaded one holds included. Reads the system, so call it in a thread."""
        from ...models.memory import room

        settings = self.chat.settings
        return room(settings.device, settings.gpu_layers, _held(getattr(self.chat.dialogue.engine, "pid", None)))

    def watch_downloads(self) -> None:
        """Tell how downloads end, from now on."""
        if self._news is None:
            self._news = self.chat.set_interval(NEWS_SECONDS, self._tell)
        self._news.resume()

    def _tell(self) -> None:
        while self.downloads.news:
            ended = self.downloads.news.popleft()
            if ended.state == "failed":
                self.chat.tell(ended.sentence, "warning")
                self.chat.notifying.say(ended.sentence)
            elif ended.state == "done":
                self.chat.tell(f"{ended.spec} is here ({size_of(ended.total)}): /models loads it.")
                self.chat.notifying.say(f"{ended.spec} is downloaded.")
        if not self.downloads.active and self._news is not None:
            self._news.pause()

    def close(self) -> None:
        """Hold the downloads; what came stays."""
        if self._downloads is not None:
            self._downloads.close()


def _held(pid: int | None) -> int:
    """Bytes that the engine's process alone holds, most of which come back when its model goes."""
    if pid is None:
        return 0
    import psutil

    try:
        told = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    return max(0, int(told.rss - getattr(told, "shared", 0)) - RUNTIME)


RUNTIME = 400_000_000
"""Bytes that an engine with torch holds without any model, about."""
