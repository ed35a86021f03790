"""Messages and drafts of earlier chats: read at the start, and added to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from textual.css.query import NoMatches
from textual.worker import Worker

from ....errors import UserError
from ...history.typed import NEW, Drafts, Typed, Typing, keep_sent, sent_before
from ...text.cells import sanitise
from ..host import Host


class PromptRecall:
    """Earlier chats' messages for the input box, and this chat's for later ones, if a history is kept."""

    def __init__(self, host: Host, keep: bool) -> None:
        self._host = host
        self._keeps = keep
        self._order = asyncio.Lock()
        self._drafts: Drafts | None = None
        self._chat = NEW
        self._saved: Typing | None = None
        self._writing = False

    def begin(self) -> None:
        """Read messages and drafts of earlier chats, in a thread."""
        if not self._keeps:
            return
        self._host.box.keep = self._keep

        async def read() -> None:
            async with self._order:
                with suppress(UserError):  # the recorder of the chat says why
                    self._host.box.recall(await asyncio.to_thread(sent_before))
                await self._continue_drafts()

        self._work(read, "prompts")

    async def _continue_drafts(self) -> None:
        """Continue the drafts of a chat that has ended, and claim them."""
        drafts = Drafts()
        with suppress(UserError):
            unsent = await asyncio.to_thread(drafts.take_over)
            self._drafts = drafts
            for typed in unsent:
                self._host.box.go_on(typed)

    def idle(self, chat: int | None) -> None:
        """Save the draft in a thread; call it several times a second.

        Args:
            chat: number of the chat on the screen, once the history has it.
        """
        drafts = self._drafts
        if drafts is None or self._writing:
            return
        if self._chat != (number := chat or NEW):  # the same chat with a number, or a new one: the draft stays
            drafts.by_chat.pop(self._chat, None)
            self._chat = number
            if not self._host.box.text:
                self._restore(drafts)
        if (typing := self._typing(drafts)) == self._saved:
            return
        self._writing = True

        async def write() -> None:
            with suppress(UserError):  # `leave` reports it, if it persists
                await asyncio.to_thread(drafts.write, typing)
                self._saved = typing
            self._writing = False

        self._work(write, "drafts")

    def _restore(self, drafts: Drafts) -> None:
        for typed in drafts.by_chat.get(self._chat, ()):
            self._host.box.go_on(typed)

    def _typing(self, drafts: Drafts) -> Typing:
        drafts.by_chat[self._chat] = self._unsent()
        return drafts.typing(self._chat)

    def _unsent(self) -> list[Typed]:
        """List the queued message, the draft set aside for an edit, and the text in the box."""
        box = self._host.box
        texts = (box.typed(self._host.dialogue.queued or ""), box.typed(box.set_aside), box.draft)
        return [typed for typed in texts if typed.text.strip()]

    def show(self, chat: int | None) -> None:
        """Swap the draft for that of another chat.

        Args:
            chat: its number; None for a new one.
        """
        before, self._chat = self._chat, chat or NEW
        if self._drafts is not None and before != self._chat:
            self._drafts.by_chat[before] = self._unsent()
            self._host.box.put("")
            self._restore(self._drafts)

    def leave(self) -> str:
        """Save the draft now; return a sentence about it, empty without one."""
        try:
            text = "\n".join(typed.text for typed in self._unsent())
        except NoMatches:  # before the first frame
            return ""
        with suppress(UserError):
            if self._keeps:
                drafts = self._drafts = self._drafts or Drafts()  # the chat may end before it has read earlier drafts
                drafts.write(self._typing(drafts), last=True)
                return "What you were typing is saved. The next chat starts with it." if text else ""
        return f"What you were typing could not be saved:\n{sanitise(text)}" if text else ""

    def _keep(self, typed: Typed) -> None:
        async def add() -> None:
            async with self._order:  # in the order of sending
                with suppress(UserError):
                    await asyncio.to_thread(keep_sent, typed)

        self._work(add, "prompts")

    def _work(self, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> Worker[None]:
        # Not a coroutine yet: at the chat's end it may never start, and Python warns of one never awaited.
        return self._host.box.run_worker(work, group=group)
