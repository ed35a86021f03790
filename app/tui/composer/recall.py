"""The history of what was typed, on the chat screen: read at the start, added to, searched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from textual.css.query import NoMatches
from textual.worker import Worker

from ....errors import UserError
from ...history.typed import NEW, Drafts, Typed, Typing, keep_sent, sent_before
from ...settings import actions
from ...text.cells import sanitise
from ..actions.registry import runs
from ..host import Host


class PromptRecall:
    """The messages of earlier chats in the input box, and this one's for later chats, where a history is kept."""

    def __init__(self, host: Host, keep: bool) -> None:
        self._host, self._keeps = host, keep
        self._turn = asyncio.Lock()
        self._drafts: Drafts | None = None
        self._shown = NEW
        self._noted: Typing | None = None
        self._writing = False

    def begin(self) -> None:
        """Read what earlier chats left, beside the first frame."""
        if self._keeps:
            self._host.box.keep = self._keep
            self.refresh(first=True)

    def refresh(self, first: bool = False) -> None:
        """Take in what other chats have added meanwhile."""
        if not self._keeps:
            return

        async def read() -> None:
            async with self._turn:
                with suppress(UserError):  # the recorder of the chat says why
                    self._host.box.recall(await asyncio.to_thread(sent_before))
                if first:
                    await self._take_up()

        self._work(read, "prompts")

    async def _take_up(self) -> None:
        """Go on with what was being typed when a chat was ended; no other chat does then."""
        drafts = Drafts()
        with suppress(UserError):
            left = await asyncio.to_thread(drafts.take_over)
            self._drafts = drafts
            for typed in left:
                self._host.box.go_on(typed)

    def idle(self, chat: int | None) -> None:
        """Keep what is being typed, in a thread; call it several times a second.

        Args:
            chat: number of the chat on the screen, once the history has it.
        """
        drafts = self._drafts
        if drafts is None or self._writing:
            return
        box = self._host.box
        if self._shown != (shown := chat or NEW):  # it got its number, or a new one began: the draft goes along
            drafts.by_chat.pop(self._shown, None)
            self._shown = shown
            for typed in drafts.by_chat.get(shown, ()) if not box.text else ():
                box.go_on(typed)
        typing = self._typing(drafts)
        if typing == self._noted:
            return
        self._writing = True

        async def write() -> None:
            try:
                await asyncio.to_thread(drafts.write, typing)
                self._noted = typing
            except UserError:
                pass  # said at the end, if it is still so
            finally:
                self._writing = False

        self._work(write, "drafts")

    def _typing(self, drafts: Drafts) -> Typing:
        drafts.by_chat[self._shown] = self._unsent()
        return drafts.typing(self._shown)

    def _unsent(self) -> list[Typed]:
        """The message that waits for the model, the draft behind an edit, and the text in the box."""
        box = self._host.box
        typed = (box.typed(self._host.dialogue.queued or ""), box.typed(box.set_aside), box.draft)
        return [each for each in typed if each.text.strip()]

    def show(self, chat: int | None) -> None:
        """Another chat is on the screen (its number, None for a new one): each has its own draft."""
        box = self._host.box
        before, self._shown = self._shown, chat or NEW
        if self._drafts is not None and before != self._shown:
            self._drafts.by_chat[before] = self._unsent()
            box.put("")
            for typed in self._drafts.by_chat.get(self._shown, ()):
                box.go_on(typed)

    def leave(self) -> str:
        """Keep what is being typed, now; a sentence about it, empty if nothing is."""
        try:
            text = "\n".join(typed.text for typed in self._unsent())
        except NoMatches:  # the first frame is still to come
            return ""
        with suppress(UserError):
            if self._keeps:
                drafts = self._drafts = self._drafts or Drafts()  # the chat may end before it has read what others left
                drafts.close(self._typing(drafts))
                return "What you were typing is saved. The next chat starts with it." if text else ""
        return f"What you were typing could not be saved:\n{sanitise(text)}" if text else ""

    def _keep(self, typed: Typed) -> None:
        async def add() -> None:
            async with self._turn:  # in the order in which they were sent
                with suppress(UserError):
                    await asyncio.to_thread(keep_sent, typed)

        self._work(add, "prompts")

    def _work(self, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> Worker[None]:
        """Work beside the interface. Not yet a coroutine: at the chat's end it may never begin, and Python tells of one that
        nobody has waited for."""
        return self._host.box.run_worker(work, group=group)

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
