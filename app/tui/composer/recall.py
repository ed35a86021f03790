"""The history of what was typed, on the chat screen: read at the start, added to, searched."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from textual.css.query import NoMatches

from ....errors import UserError
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

    def begin(self) -> None:
        """Read what earlier chats left, beside the first frame."""
        if not self._keeps:
            return
        self._history = PromptHistory()
        self._host.box.keep = self._keep
        self.refresh(first=True)

    def refresh(self, first: bool = False) -> None:
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
                    if first and found and found[-1].draft:
                        self._take_up(found[-1])

        self._host.box.run_worker(read(), group="prompts")

    def _take_up(self, typed: Typed) -> None:
        """Go on with what was being typed when a chat was ended; no other chat does then."""
        box = self._host.box
        if not box.text and not self._host.dialogue.queued:
            box.bring(box.sent[-1])
            self._keep(replace(typed, draft=False))

    def leave(self) -> str:
        """Keep what is being typed for the next chat, now; a sentence about it, empty if nothing is."""
        try:
            box = self._host.box
        except NoMatches:  # the first frame is still to come
            return ""
        draft = Typed(box.text, {chip: whole for chip, whole in box.pastes.items() if chip in box.text}, draft=True)
        if not draft.text.strip() or box.walking:
            return ""
        try:
            if self._history is not None and self._history.add(draft):
                return "What you were typing is saved. The next chat starts with it."
        except (OSError, UserError):
            pass
        return f"What you were typing could not be saved:\n{sanitise(draft.text)}"

    def _keep(self, typed: Typed) -> None:
        history = self._history
        assert history is not None

        async def add() -> None:
            async with self._turn:  # in the order in which they were sent
                try:
                    await asyncio.to_thread(history.add, typed)
                except (OSError, UserError) as error:
                    self._warn("Your messages are not being saved for the up key in later chats", error)

        self._host.box.run_worker(add(), group="prompts")

    def _warn(self, what: str, error: OSError | UserError) -> None:
        if not self._warned and self._history is not None:
            self._warned = True
            why = str(error)
            if isinstance(error, OSError):
                why = f"{error.strerror or type(error).__name__}; move {short_path(self._history.path)} out of the way."
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
