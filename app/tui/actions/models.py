"""Models inside the chat: the picker, loading what was picked, downloads that go on behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....engine.options import SHIPPED, draft_names, find_server
from ....errors import UserError
from ....plain_file import user_path
from ...settings import actions
from ...text.amounts import size_of
from ..host import Host
from .registry import runs

if TYPE_CHECKING:
    from ...models.downloads import Downloads
    from ...models.library import Library
    from ...models.memory import FreeMemory


class Models:
    """The models that the chat can load: /model, /models, downloads."""

    def __init__(self, host: Host, say: Callable[[str], None]) -> None:
        self.host, self._say = host, say
        self._library: Library | None = None
        self._downloads: Downloads | None = None
        self._noted = ""

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

    @runs(actions.MODEL)
    def command(self, *words: str) -> None:
        name = " ".join(words)
        if len(words) != 1 and not (words and find_server(name, self.host.dialogue.load.get("servers", {}))):
            raise UserError("/model takes one name: builtin, a folder, owner/name on the Hub, or a server's address.")
        self.load(name, backend=self.backend_for(name))

    @runs(actions.MODELS)
    def browse(self, *words: str) -> None:
        """Show the picker; with words, what has them; `owner/name` is looked up on the Hub."""
        from ...models.search import ModelSearch
        from ...models.view import ModelsView
        from ..pickers.models import ModelsScreen

        dialogue, live = self.host.dialogue, self.host.live
        looking = ModelSearch(self.library, live.settings.model_folders, self.room, live.settings.servers)
        view = ModelsView(looking, self.downloads, dialogue, live.settings.load_options())
        self.host.ask(ModelsScreen(view, self.load, live.keymap, " ".join(words)))

    def load(self, spec: str, *, backend: str = "auto", revision: str | None = None, draft: str | None = None) -> None:
        """Load a model, and a draft model with it, in place of the first one that this model has."""
        dialogue = self.host.dialogue
        dialogue.must_be_idle("load another model", may_wait=True)
        others = draft_names(dialogue.load.get("draft_model"))[1:] if draft and spec == dialogue.model else []
        drafts = [draft, *(name for name in others if name != draft)] if draft else None
        dialogue.load_model(spec, backend=backend, revision=revision, draft_model=drafts)
        self.host.stir()
        self.host.changed()

    def backend_for(self, spec: str) -> str:
        """The runtime that a name is loaded on: the setting's for the built-in models, which come for both; others have one."""
        return self.host.live.settings.backend if spec in SHIPPED else "auto"

    def note(self) -> None:
        """Keep the loaded model's name on the disk for the list of those that were used lately. One whose load fails is never
        kept."""
        spec = self.host.dialogue.model
        if not self.host.dialogue.info or spec == self._noted:
            return
        self._noted, path = spec, user_path(spec)
        if path.is_absolute() or spec.lower().endswith(".gguf") or spec.startswith("."):
            from ...models.places import remember

            threading.Thread(target=remember, args=(str(path.absolute()),), daemon=True).start()

    def room(self) -> FreeMemory:
        """What is free for another model, what the loaded one holds included. Reads the system, so call it in a thread."""
        from ...models.memory import room

        settings = self.host.live.settings
        return room(settings.device, settings.gpu_layers, _held(getattr(self.host.dialogue.engine, "pid", None)))

    def idle(self) -> None:
        """Tell which downloads have ended, a few times a second."""
        while self._downloads is not None and self._downloads.news:
            ended = self._downloads.news.popleft()
            if ended.state == "failed":
                self.host.tell(ended.sentence, "warning")
                self._say(ended.sentence)
            elif ended.state == "done":
                self.host.tell(f"{ended.spec} is downloaded ({size_of(ended.total)}). Load it with /models.")
                self._say(f"{ended.spec} is downloaded.")

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
