"""Models inside the chat: the picker, loading what was picked, downloads that go on behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ....engine.options import SHIPPED, find_server
from ....errors import UserError
from ....plain_file import user_path
from ...settings import actions
from ...text.amounts import size_of
from ..host import Host
from .dispatch import runs

if TYPE_CHECKING:
    from ...models.hub import Downloads
    from ...models.library import Library
    from ...models.memory import FreeMemory


RUNTIME = 400_000_000
"""Approximate bytes of an engine with torch and no model."""


class Models:
    """The models that the chat can load: /model, /models, downloads."""

    def __init__(self, host: Host, ring: Callable[[], None]) -> None:
        self.host = host
        self._ring = ring
        self._remembered = ""

    # Imported on demand: 20 ms that the first frame need not wait for.

    @cached_property
    def library(self) -> Library:
        """Models found so far."""
        from ...models.library import Library

        return Library()

    @cached_property
    def downloads(self) -> Downloads:
        """Running and earlier downloads; the record of earlier ones is read at the first access."""
        from ...models.hub import Downloads

        return Downloads()

    @runs(actions.MODEL)
    def command(self, *words: str) -> None:
        name = " ".join(words)
        if len(words) != 1 and not (words and find_server(name, self.host.dialogue.selection.servers)):
            raise UserError("/model takes one name: builtin, a folder, owner/name on the Hub, or a server's address.")
        # Built-in models come for both runtimes, so the setting decides; others have one.
        self.load(name, backend=self.host.live.settings.backend if name in SHIPPED else "auto")

    @runs(actions.MODELS)
    def browse(self, *words: str) -> None:
        """Show the picker, searched for any words; `owner/name` is looked up on the Hub."""
        from ...models.search import ModelSearch
        from ..pickers.models import ModelsScreen

        dialogue, live = self.host.dialogue, self.host.live
        search = ModelSearch(self.library, self.downloads, self.room, dialogue, live.settings)
        self.host.ask(ModelsScreen(search, self.load, live.keymap, " ".join(words)))

    def load(self, spec: str, *, backend: str = "auto", revision: str | None = None, draft: str | None = None) -> None:
        """Load a model, with a draft model that replaces the first of its draft models."""
        dialogue = self.host.dialogue
        dialogue.must_be_idle("load another model", may_wait=True)
        loaded = dialogue.selection.draft_model if spec == dialogue.model else ()
        drafts = (draft, *(name for name in loaded[1:] if name != draft)) if draft else ()
        dialogue.load_model(spec, backend=backend, revision=revision, draft_model=drafts)
        self.host.expect_events()
        self.host.changed()

    def remember_loaded(self) -> None:
        """Add the loaded model to the list of recent models on the disk; one whose load failed is never added."""
        spec = self.host.dialogue.model
        if not self.host.dialogue.info or spec == self._remembered:
            return
        self._remembered = spec
        path = user_path(spec)
        if path.is_absolute() or spec.lower().endswith(".gguf") or spec.startswith("."):
            from ...models.places import remember

            threading.Thread(target=remember, args=(str(path.absolute()),), daemon=True).start()

    def room(self) -> FreeMemory:
        """Measure the memory free for another model, including the loaded one's. Reads the system: call it in a thread."""
        import psutil

        from ...models.memory import room

        freed = 0
        if pid := getattr(self.host.dialogue.engine, "pid", None):
            with suppress(psutil.Error):
                memory = psutil.Process(pid).memory_info()
                freed = max(0, int(memory.rss - getattr(memory, "shared", 0)) - RUNTIME)
        settings = self.host.live.settings
        return room(settings.device, settings.gpu_layers, freed)

    def poll_downloads(self) -> None:
        """Show notices about downloads that ended; call it a few times a second."""
        while "downloads" in vars(self) and self.downloads.news:
            ended = self.downloads.news.popleft()
            if ended.state == "failed":
                self.host.tell(ended.sentence, "warning")
                self._ring()
            elif ended.state == "done":
                self.host.tell(f"{ended.spec} is downloaded ({size_of(ended.total)}). Load it with /models.")
                self._ring()

    def close(self) -> None:
        """Stop the downloads and keep the parts for the next start."""
        if "downloads" in vars(self):
            self.downloads.close()
