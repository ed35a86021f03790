"""The history of what was typed, on the chat screen: read at the start, added to, searched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from textual.css.query import NoMatches
from textual.worker import Worker

from ....errors import UserError
from ....plain_file import FULL
from ...history.prompts import PromptHistory, Typed
from ...settings import actions
from ...text.amounts import short_path
from ...text.cells import sanitise
from ..actions.registry import runs
from ..host import Host


class PromptRecall:
    """The messages of earlier chats in the input box, and this one's for later chats, where a history is kept."""

    def __init__(self, host: Host, keep: bool) -> None:
        self._host, self._keeps = host, keep
        self._history: PromptHistory | None = None
        self._turn = asyncio.Lock()
        self._warned = False
        self._drafts: dict[int | None, list[Typed]] = {}
        """Number of a chat that another took the place of (None for one without) → what was typed in it and is not sent."""

    def begin(self) -> None:
        """Read what earlier chats left, beside the first frame."""
        if not self._keeps:
            return
        self._history = PromptHistory()
        self._host.box.keep = self._keep
        self.refresh()

    def refresh(self) -> None:
        """Take in what other chats have added meanwhile."""
        history = self._history
        if history is None:
            return

        async def read() -> None:
            async with self._turn:
                try:
                    found = await asyncio.to_thread(history.read) if await asyncio.to_thread(history.stale) else None
                except OSError as error:
                    self._warn("Cannot read your earlier messages", error)
                    return
                if found is not None:
                    self._host.box.recall(found)

        self._work(read, "prompts")

    def _unsent(self) -> list[Typed]:
        """The message that waits for the model, the draft behind an edit, and the text in the box."""
        box = self._host.box
        typed = (box.typed(self._host.dialogue.queued or ""), box.typed(box.set_aside), box.draft)
        return [each for each in typed if each.text.strip()]

    def swap(self, before: int | None, after: int | None) -> None:
        """Keep the draft of the chat that leaves the screen, and take up that of the one that comes, by their numbers."""
        if before != after:
            box = self._host.box
            self._drafts[before] = self._unsent()
            box.put("")
            for typed in self._drafts.pop(after, ()):
                box.go_on(typed)

    def leave(self) -> str:
        """Keep what is typed and not sent, now, in all chats; a sentence about it, empty if nothing is."""
        try:
            unsent = [typed for drafts in self._drafts.values() for typed in drafts] + self._unsent()
        except NoMatches:  # the first frame is still to come
            return ""
        if not unsent:
            return ""
        with suppress(OSError, UserError):
            history = PromptHistory()
            if self._keeps and False not in list(map(history.add, unsent)):
                return "What you were typing is saved: the up key brings it back."
        return "\n".join(("What you were typing could not be saved:", *(sanitise(typed.text) for typed in unsent)))

    def _keep(self, typed: Typed) -> None:
        history = self._history
        assert history is not None

        async def add() -> None:
            async with self._turn:  # in the order in which they were sent
                try:
                    await asyncio.to_thread(history.add, typed)
                except (OSError, UserError) as error:
                    self._warn("Your messages are not being saved for the up key in later chats", error)

        self._work(add, "prompts")

    def _work(self, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> Worker[None]:
        """Work beside the interface. Not yet a coroutine: at the chat's end it may never begin, and Python tells of one that
        nobody has waited for."""
        return self._host.box.run_worker(work, group=group)

    def _warn(self, what: str, error: OSError | UserError) -> None:
        if not self._warned and self._history is not None:
            self._warned = True
            why = str(error)
            if isinstance(error, OSError):
                place = short_path(self._history.path)
                mend = f"free some space for {place}" if error.errno in FULL else f"move {place} out of the way"
                why = f"{error.strerror or type(error).__name__}; {mend}."
            self._host.tell(f"{what}: {why}", "warning")

    @runs(actions.PROMPT_SEARCH)
    def search(self) -> None:
        from ..pickers.prompts import PromptSearch

        box = self._host.box
        if not box.sent:
            self._host.tell("You have not sent any messages yet.")
            return

        def chosen(text: str | None) -> None:
            box.focus()
            if text is not None:
                box.bring(text)

        draft = box.text.strip()
        query = draft if "\n" not in draft and len(draft) < 60 else ""
        self._host.push_screen(PromptSearch(box.sent, self._host.live.keymap, query), chosen)
